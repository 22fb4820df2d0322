"""Harmony's built-in ``browser``: search, open and find over numbered pages, with cursors, a history a session."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from antiphon.conversation import BROWSER, JsonSchema, ToolNamespace, ToolSpec
from antiphon.tools.call import Tool, ToolCall, ToolOutput

from .page import Backend, Hit, Page, display, numbered, refused

LINES = 80
MAX_LINES = 400
MAX_TOPN = 50
MAX_MATCHES = 50
SESSIONS = 256
CURSORS = 128


_CITATION = re.compile(r"【(\d{1,9})†L(\d{1,9})(?:-L?(\d{1,9}))?】")


class Citation(msgspec.Struct, frozen=True):
    """A mark in an answer, and the page that it names: ``start`` and ``end`` are its place in the text."""

    start: int
    end: int
    url: str
    title: str
    lines: tuple[int, int]


@dataclass(slots=True)
class History:
    """Pages that one session has seen: ``pages[cursor]``. The oldest are forgotten, and their cursors with them."""

    pages: OrderedDict[int, Page] = field(default_factory=OrderedDict)
    next: int = 0

    def show(self, page: Page, start: int = 0, count: int = LINES) -> ToolOutput:
        cursor, self.next = self.next, self.next + 1
        self.pages[cursor] = page
        while len(self.pages) > CURSORS:
            self.pages.popitem(last=False)
        first = max(0, min(start, len(page.lines) - 1))
        return ToolOutput(
            content=display(page, cursor, first, count),
            provenance={"source": page.url, "cursor": cursor, "title": page.title},
            plain=True,
        )

    def page(self, cursor: int) -> Page:
        """The page of a cursor; -1 is the most recent."""
        number = self.next - 1 if cursor == -1 else cursor
        if number not in self.pages:
            known = ", ".join(map(str, list(self.pages)[-8:])) or "none yet"
            raise refused(f"there is no cursor {cursor}; known are {known}")
        return self.pages[number]


class Browser:
    """The three browser tools over one backend; histories never mix between sessions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._histories: OrderedDict[str, History] = OrderedDict()
        self._tools = (
            BrowserTool("search", _SEARCH, self._search),
            BrowserTool("open", _OPEN, self._open),
            BrowserTool("find", _FIND, self._find),
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return ()

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return (BROWSER,)

    def history(self, session: str) -> History:
        history = self._histories.pop(session, None) or History()
        if session:
            self._histories[session] = history
        while len(self._histories) > SESSIONS:
            self._histories.popitem(last=False)
        return history

    async def _search(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        query = arguments["query"]
        topn = max(1, min(int(arguments.get("topn", 10)), MAX_TOPN))
        hits = await self._backend.search(query, topn)
        shown = self.history(call.session).show(_results(query, hits))
        found = {"links": [hit.url for hit in hits], "titles": [hit.title for hit in hits]}
        return replace(shown, provenance={**shown.provenance, **found})

    async def _open(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        history = self.history(call.session)
        id = arguments.get("id", -1)
        cursor = int(arguments.get("cursor", -1))
        if isinstance(id, str):
            page = await self._backend.open(id)
        elif id < 0:
            page = history.page(cursor)
        else:
            links = history.page(cursor).links
            if int(id) >= len(links):
                raise refused(f"the page has no link {int(id)}; it has {len(links)}")
            page = await self._backend.open(links[int(id)])
        count = int(arguments.get("num_lines", -1))
        return history.show(page, int(arguments.get("loc", -1)), LINES if count < 1 else min(count, MAX_LINES))

    async def _find(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        history = self.history(call.session)
        page = history.page(int(arguments.get("cursor", -1)))
        found = await asyncio.to_thread(_matches, page, arguments["pattern"])
        return history.show(found)

    def citations(self, session: str, text: str) -> list[Citation]:
        """The pages that an answer's marks name; a mark of no page of this session is left out."""
        pages = self.history(session).pages
        found = [(mark, pages.get(int(mark[1]))) for mark in _CITATION.finditer(text)]
        return [
            Citation(mark.start(), mark.end(), page.url, page.title, (int(mark[2]), int(mark[3] or mark[2])))
            for mark, page in found
            if page is not None
        ]

    async def aclose(self) -> None:
        self._histories.clear()
        await self._backend.aclose()


class BrowserTool(msgspec.Struct, frozen=True):
    """One of the browser's functions."""

    name: str
    parameters: JsonSchema | None
    answer: Callable[[ToolCall, Mapping[str, Any]], Awaitable[ToolOutput]]

    @property
    def recipient(self) -> str:
        return f"browser.{self.name}"

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return await self.answer(call, arguments)


def _results(query: str, hits: Sequence[Hit]) -> Page:
    lines: list[str] = []
    for number, hit in enumerate(hits):
        lines += [f"【{number}†{hit.title}】 {hit.url}", hit.snippet, ""]
    return Page(
        f"search:{query}", f"Results for {query!r}", tuple(lines or ["No results."]), tuple(hit.url for hit in hits)
    )


def _matches(page: Page, pattern: str) -> Page:
    """Exact matches, case aside, with the lines around them; never a regular expression."""
    folded = pattern.casefold()
    lines: list[str] = []
    found = 0
    for number, line in enumerate(page.lines):
        if folded and folded in line.casefold():
            found += 1
            lines += [f"# match {found} at L{number}", *numbered(page.lines[number : number + 4], number), ""]
        if found >= MAX_MATCHES:
            break
    return Page(
        page.url, f"{found} matches of {pattern!r} in {page.title}", tuple(lines or ["No matches."]), page.links
    )


_NUMBER = {"type": "integer", "minimum": -1, "maximum": 1_000_000_000, "default": -1}
_TEXT = {"type": "string", "minLength": 1, "maxLength": 4096}
_SOURCE = {"type": "string"}
"""Models name one (``news``); there is one source, whatever it is called, as in gpt-oss's own tool."""
_SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {"query": _TEXT, "topn": {"type": "integer", "default": 10}, "source": _SOURCE},
    "required": ["query"],
}
_OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"anyOf": [_NUMBER, _TEXT], "default": -1},
        "cursor": _NUMBER,
        "loc": _NUMBER,
        "num_lines": _NUMBER,
        "view_source": {"const": False},
        "source": _SOURCE,
    },
}
_FIND: dict[str, Any] = {
    "type": "object",
    "properties": {"pattern": _TEXT, "cursor": _NUMBER},
    "required": ["pattern"],
}
"""Schemas that refuse what is not served (a page's source text), so that the model learns of it."""
