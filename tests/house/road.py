"""What one request passes through: functions, files, rooms and changes of room, for ``make house``.

``python tests/house/road.py`` prints them for a streamed answer of ten tokens of each API, and what each further token
costs. A call is of a function of the package; a room is a folder of the package; an API's own folder is one.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = f"{ROOT / 'src' / 'antiphon'}/"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))

from kit.api import END, app, ids, post_in_process  # noqa: E402  (as a script, the tests' folder is no import path yet)

TOKENS, MORE = 10, 40
USER = {"role": "user", "content": "Hello"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [USER]}),
    "responses": ("/v1/responses", {"input": [USER], "store": False}),
    "messages": ("/v1/messages", {"messages": [USER], "max_tokens": 100}),
    "ollama": ("/api/chat", {"messages": [USER]}),
}


@dataclass
class Road:
    """What was called, in its order."""

    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    changes: int = 0
    _rooms: list[str] = field(default_factory=list)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """A function was called, or goes on after what it awaited."""
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(SOURCE) or frame.f_code.co_name.startswith("<"):
            return
        room = room_of(file.removeprefix(SOURCE))
        self.changes += bool(self._rooms) and self._rooms[-1] != room
        self._rooms.append(room)
        self.calls[file, frame.f_code.co_firstlineno] += 1

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.calls}

    @property
    def rooms(self) -> set[str]:
        return set(self._rooms)


def room_of(path: str) -> str:
    """The first folder of a file's path; of an API, its own."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 2 if folders[:1] == ["api"] else 1])


async def travelled(name: str, tokens: int) -> Road:
    """The road of one streamed answer, of an application that answered before."""
    path, fields = REQUESTS[name]
    application = app(ids("a" * tokens, END))
    body = {"model": "small", "stream": True, **fields}
    for _ in range(3):
        road = Road()
        sys.setprofile(road.note)
        try:
            got = await post_in_process(application, path, **body)
        finally:
            sys.setprofile(None)
        assert got.status == 200, got.body
    return road


@dataclass(frozen=True)
class Measured:
    """Functions, files, rooms and changes of room of a request; calls and changes of each further token."""

    functions: int
    files: int
    rooms: int
    changes: int
    token_calls: float
    token_changes: float


def measured(name: str) -> Measured:
    """What an answer of ten tokens passes, and what a token costs beside it."""
    few, many = (asyncio.run(travelled(name, tokens)) for tokens in (TOKENS, TOKENS + MORE))
    calls = (many.calls.total() - few.calls.total()) / MORE
    changes = (many.changes - few.changes) / MORE
    return Measured(len(few.calls), len(few.files), len(few.rooms), few.changes, calls, changes)


AIMS = Measured(250, 45, 8, 200, 28, 10)
"""Of a streamed chat; of a token of any."""


MOST_FUNCTIONS = {"chat": 430, "responses": 430, "messages": 421, "ollama": 436}
"""Functions at most of each, with room for what a busy machine adds (a signal of life, a wait): there are only ever
fewer."""


def lines() -> Iterator[str]:
    """The table, with the aims under it."""
    yield f"{'streamed':10} functions  files  rooms  changes  a token: calls  changes"
    for name, m in (*((name, measured(name)) for name in REQUESTS), ("aim", AIMS)):
        yield (
            f"{name:10} {m.functions:>9} {m.files:>6} {m.rooms:>6} {m.changes:>8} "
            f"{m.token_calls:>15.1f} {m.token_changes:>8.1f}"
        )


if __name__ == "__main__":
    print(*lines(), sep="\n")
