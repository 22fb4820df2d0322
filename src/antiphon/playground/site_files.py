"""The built site, which `make docs` packs into the package: its files, by name, as they are sent."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO

from .files import MEDIA_TYPES, StaticFile, as_sent

PACKED = files(__package__) / "pages.zip"
KINDS = {
    **MEDIA_TYPES,
    ".abnf": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".png": "image/png",
    ".webp": "image/webp",
}


class Site:
    """The files of an archive. It is read at the first request; each file is unpacked when it is first requested."""

    def __init__(self, packed: Traversable) -> None:
        self._packed = packed
        self._sent: dict[str, StaticFile] = {}

    @property
    def built(self) -> bool:
        return bool(self._kinds)

    def file(self, name: str) -> StaticFile | None:
        """The file of that name (``python.html``); None for any other, whatever it spells: it is never made a path."""
        if name not in self._kinds:
            return None
        if name not in self._sent:
            with zipfile.ZipFile(BytesIO(self._content)) as archive:
                self._sent[name] = as_sent(self._kinds[name], archive.read(name))
        return self._sent[name]

    @cached_property
    def _content(self) -> bytes:
        return self._packed.read_bytes() if self._packed.is_file() else b""

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        """Which files there are, and their media types; none where the site was not built."""
        if not self._content:
            return {}
        with zipfile.ZipFile(BytesIO(self._content)) as archive:
            kinds = {name: KINDS.get(f".{name.rpartition('.')[2]}") for name in archive.namelist()}
        return {name: kind for name, kind in kinds.items() if kind}
