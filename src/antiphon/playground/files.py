"""The files of the playground, by name, as they are sent."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

POLICY = "; ".join((
    "default-src 'self'", "connect-src 'self'", "img-src 'self' data:", "style-src 'self'", "frame-ancestors 'none'",
    "base-uri 'none'", "form-action 'none'", "object-src 'none'",
    "require-trusted-types-for 'script'", "trusted-types dompurify highlighting",
))  # fmt: skip
"""The Content-Security-Policy of every file: nothing but the server's own, no inline script or style."""

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class StaticFile(msgspec.Struct, frozen=True):
    """One file, plain and compressed; ``tag`` is its entity tag, quoted."""

    media_type: str
    tag: str
    plain: bytes
    compressed: bytes


def static_file(name: str) -> StaticFile | None:
    """The file of that name (``app/main.js``); None for any other name, whatever it spells."""
    return _all().get(name)


def static_names() -> tuple[str, ...]:
    return tuple(_all())


@cache
def _all() -> Mapping[str, StaticFile]:
    """Read once, so that a name is looked up and never made a path."""
    return dict(_below(files(__package__) / "static", ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif (kind := MEDIA_TYPES.get(f".{entry.name.rpartition('.')[2]}")) is not None:
            found.append((f"{prefix}{entry.name}", as_sent(kind, entry.read_bytes())))
    return found


def as_sent(media_type: str, plain: bytes) -> StaticFile:
    """A file with its tag, and compressed."""
    tag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
    return StaticFile(media_type, tag, plain, gzip.compress(plain, mtime=0))
