"""Which stored completions a list has, and where a page of it begins."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from itertools import dropwhile

import msgspec

from antiphon.wire.errors import refused

_ID = re.compile("chatcmpl-[0-9a-f]{30}")
_PAIR = re.compile(r"metadata\[(.*)\]", re.DOTALL)


class Filter(msgspec.Struct, frozen=True):
    """Which completions a list has: all pairs of ``metadata`` are among theirs. None, and no pairs: all of them."""

    model: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    def takes(self, models: Collection[str], metadata: Mapping[str, str]) -> bool:
        """Whether the list has a completion with these names of its model and these pairs."""
        fits = self.model is None or self.model in models
        return fits and all(metadata.get(key) == value for key, value in self.metadata)


class Cursor(msgspec.Struct, frozen=True):
    """Where in a list a page begins: behind the id ``after``, which may be deleted meanwhile; "": at its beginning.

    Raises `RequestError` for what cannot have been an id.
    """

    after: str = ""
    newest_first: bool = False

    def __post_init__(self) -> None:
        if self.after and not _ID.fullmatch(self.after):
            raise refused("after", f"there is no completion {self.after[:80]!r}.")

    def rest(self, ids: Iterable[str]) -> Iterable[str]:
        """Those of ``ids`` that the page may have, in its order."""
        ordered = sorted(ids, reverse=self.newest_first)
        if not self.after:
            return ordered
        return dropwhile(lambda id: id >= self.after if self.newest_first else id <= self.after, ordered)


def completion_id(now: float) -> str:
    """A new id; ids sort by the time ``now`` (Unix, in seconds) at which they were made."""
    return f"chatcmpl-{int(now * 1e6):014x}{secrets.token_hex(8)}"


def filter_of(query: Iterable[tuple[str, str]]) -> tuple[Filter, set[str]]:
    """What ``model`` and ``metadata[KEY]`` request, and the names of the query that are neither."""
    model: str | None = None
    pairs: list[tuple[str, str]] = []
    others: set[str] = set()
    for name, value in query:
        if pair := _PAIR.fullmatch(name):
            pairs.append((pair[1], value))
        elif name.startswith("metadata"):
            raise refused("metadata", "the filter has the form metadata[KEY]=VALUE.")
        elif name == "model":
            model = value
        else:
            others.add(name)
    return Filter(model, tuple(pairs)), others
