"""Writes the arguments of a call as JSON while they are read."""

from __future__ import annotations

from collections.abc import Callable

from .json_text import json_inside


class ArgumentsWriter:
    """One JSON object, member by member."""

    def __init__(self, put: Callable[[str], object]) -> None:
        self._put = put
        self._keys: set[str] = set()

    def begin(self, key: str) -> bool:
        """The key of the next member; False where there is one of that name already."""
        if key in self._keys:
            return False
        self._put(("{" if not self._keys else ", ") + f'"{json_inside(key)}"' + ": ")
        self._keys.add(key)
        return True

    def value(self, text: str) -> None:
        """A member's whole value, as JSON."""
        self._put(text)

    def quote(self) -> None:
        """A string begins, or ends."""
        self._put('"')

    def string(self, text: str) -> None:
        """More of a string."""
        self._put(json_inside(text))

    def close(self) -> None:
        self._put("}" if self._keys else "{}")
