"""A page as the model reads it: numbered lines of text, and links by number."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urldefrag, urljoin, urlsplit

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from antiphon.errors import ConfigError
from antiphon.tools.call import ToolError, ToolFailure

WIDTH = 100
MAX_LINES = 50_000
MAX_NESTING = 3_000

_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav",
    "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})  # fmt: skip
_SKIPPED = frozenset({
    "script", "style", "noscript", "template", "svg", "head", "iframe", "object", "canvas", "select", "button", "input",
})  # fmt: skip
_BLANKS = re.compile(r"\s+")
_LINK = re.compile(r"【\d+†([^†】]*)[^】]*】")
_NESTING = re.compile(
    r"<(/?)(?:a|article|b|blockquote|center|code|details|div|em|font|form|i|main|nav|section|small|span|strong|table|u|ul)\b",
    re.I,
)
_MARKS = str.maketrans("【】†", "〖〗‡")


class Page(msgspec.Struct, frozen=True):
    """``lines`` without their numbers; ``links[n]`` is the URL behind ``【n†…】``. Text only: never structure."""

    url: str
    title: str
    lines: tuple[str, ...]
    links: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        return urlsplit(self.url).hostname or ""


@dataclass(slots=True)
class PageText:
    """Collects a page's text and numbers its links."""

    base: str
    links: list[str] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)

    def link(self, text: str, href: str) -> str:
        """The mark of a link that stands in the text: ``【id†text†domain】``, the domain only when it is another's."""
        try:
            target = urldefrag(_joined(self.base, href)).url
            host = urlsplit(target).hostname
        except ValueError:
            return text
        if not target.startswith(("http://", "https://", "corpus:")) or target == self.base:
            return text
        self.links.append(target)
        elsewhere = f"†{host}" if host and host != urlsplit(self.base).hostname else ""
        return f"【{len(self.links) - 1}†{text.translate(_MARKS)}{elsewhere}】"


def _joined(base: str, href: str) -> str:
    """``urljoin``, which knows the schemes of the web only, for a corpus's addresses too."""
    if not base.startswith("corpus:/"):
        return urljoin(base, href)
    joined = urljoin("http://corpus" + base.removeprefix("corpus:"), href)
    return joined.replace("http://corpus/", "corpus:/", 1)


def html_page(url: str, html: str) -> Page:
    """The page that an HTML document is: its text in reading order, wrapped, scripts and forms left out.

    Raises ValueError for a document that nests so deeply that building its tree would take for ever.
    """
    if nesting(html) > MAX_NESTING:
        raise ValueError(f"the page nests more than {MAX_NESTING} elements")
    tree = LexborHTMLParser(html)
    title_node = tree.css_first("title")
    title = _BLANKS.sub(" ", title_node.text()).strip() if title_node else ""
    text = PageText(url)
    if tree.body is not None:
        _walk(tree.body, text)
    return Page(url, title or url, wrapped("".join(text.chunks)), tuple(text.links))


def _walk(root: LexborNode, text: PageText) -> None:
    """In document order, without recursion: documents nest as deep as their authors like."""
    node: LexborNode | None = root.child
    while node is not None:
        tag = node.tag
        entered = False
        if tag == "-text":
            text.chunks.append(_BLANKS.sub(" ", (node.text_content or "").translate(_MARKS)))
        elif tag == "a" and node.attributes.get("href"):
            label = _BLANKS.sub(" ", node.text(deep=True)).strip()
            text.chunks.append(text.link(label, node.attributes["href"] or "") if label else "")
        elif tag is not None and tag not in _SKIPPED:
            text.chunks.append("\n" if tag in _BLOCKS else "")
            entered = node.child is not None
        node = node.child if entered else _following(node, root, text)


def _following(node: LexborNode, root: LexborNode, text: PageText) -> LexborNode | None:
    """The next node in document order that is not inside ``node``; blocks that end are followed by a new line."""
    current: LexborNode | None = node
    while current is not None and current.mem_id != root.mem_id:
        if current.next is not None:
            return current.next
        current = current.parent
        if current is not None and current.tag in _BLOCKS:
            text.chunks.append("\n")
    return None


def text_page(url: str, title: str, text: str) -> Page:
    """A page of plain text or Markdown, whose ``[text](href)`` links are numbered."""
    page = PageText(url)
    marked = re.sub(
        r"\[([^\]\n]{1,300})\]\(([^)\s]{1,2000})\)", lambda m: page.link(m[1], m[2]), text.translate(_MARKS)
    )
    return Page(url, title, wrapped(marked), tuple(page.links))


def unmarked(text: str) -> str:
    """The text without its link marks, for an index."""
    return _LINK.sub(r"\1", text)


def nesting(html: str) -> int:
    """How deep the elements that do not close themselves may nest: a cheap upper estimate, before anything is built."""
    depth = deepest = 0
    for tag in _NESTING.finditer(html):
        depth = max(0, depth - 1) if tag[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def wrapped(text: str) -> tuple[str, ...]:
    """Lines of at most `WIDTH` characters, runs of empty ones as one; at most `MAX_LINES`, and a note when cut."""
    lines: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped or (lines and lines[-1]):
            lines += textwrap.wrap(stripped, WIDTH, break_on_hyphens=False) or [""]
        if len(lines) >= MAX_LINES:
            return (*lines[:MAX_LINES], "[cut: the page goes on]")
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def display(page: Page, cursor: int, start: int, count: int) -> str:
    """Shows the page as the model sees it: the cursor in brackets, where it is, and numbered lines (HAR-109)."""
    end = min(len(page.lines), start + count)
    place = f"**viewing lines [{start} - {max(start, end - 1)}] of {len(page.lines)}**"
    return "\n".join([f"[{cursor}] {page.title} ({page.url})", place, "", *numbered(page.lines[start:end], start)])


def numbered(lines: Sequence[str], start: int) -> list[str]:
    return [f"L{number}: {line}" for number, line in enumerate(lines, start)]


# Where pages come from.


class Hit(msgspec.Struct, frozen=True):
    """One search result."""

    url: str
    title: str
    snippet: str = ""


class Backend(Protocol):
    """Pages by address and by search. Errors are `ToolFailure`s, which the model reads."""

    async def search(self, query: str, topn: int) -> Sequence[Hit]: ...

    async def open(self, url: str) -> Page: ...

    async def aclose(self) -> None: ...


def refused(message: str, **details: object) -> ToolFailure:
    """A page that will not be opened, whoever asks again."""
    return ToolFailure(ToolError("E-BROWSER-REFUSED", message, details=details))


def unreachable(message: str) -> ToolFailure:
    """A page that could not be opened now."""
    return ToolFailure(ToolError("E-BROWSER-UNREACHABLE", message, retryable=True))


# A folder of pages, searched offline with SQLite's full-text index (FTS5, bm25).

SUFFIXES = {".md", ".txt", ".html", ".htm"}
MAX_FILE = 5_000_000
MAX_FILES = 100_000
_WORD = re.compile(r"\w+")
_TABLE = "CREATE VIRTUAL TABLE page USING fts5(url UNINDEXED, title, body, tokenize='porter unicode61')"
_SEARCH = """
SELECT url, title, snippet(page, 2, '', '', ' … ', 24) FROM page WHERE page MATCH ? ORDER BY bm25(page, 0, 4, 1) LIMIT ?
"""


class Corpus:
    """Pages under ``corpus:`` addresses, which are their paths in the folder; nothing outside it can be named.

    The index is in memory and made once. Raises `ConfigError` when the folder is none, or has no page.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder", code="corpus_missing")
        self._pages: dict[str, Page] = {}
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = asyncio.Lock()
        self._index.execute(_TABLE)
        for path in sorted(folder.rglob("*"))[:MAX_FILES]:
            self._add(folder, path)
        if not self._pages:
            raise ConfigError(f"{folder} has no page ({', '.join(sorted(SUFFIXES))})", code="corpus_missing")

    def _add(self, folder: Path, path: Path) -> None:
        inside = path.resolve().is_relative_to(folder.resolve())
        if path.suffix.lower() not in SUFFIXES or not path.is_file() or not inside or path.stat().st_size > MAX_FILE:
            return
        url = "corpus:/" + path.relative_to(folder).as_posix()
        text = path.read_text("utf-8", "replace")
        if path.suffix.lower().startswith(".htm"):
            page = html_page(url, text)
        else:
            first = next((line for line in text.splitlines() if line.strip()), "")
            page = text_page(url, first.lstrip("# ").strip()[:200] or path.stem, text)
        self._pages[url] = page
        self._index.execute("INSERT INTO page VALUES (?, ?, ?)", (url, page.title, unmarked("\n".join(page.lines))))

    async def search(self, query: str, topn: int) -> Sequence[Hit]:
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(query)[:32])
        if not words:
            return []
        async with self._lock:
            return await asyncio.to_thread(self._find, words, topn)

    def _find(self, words: str, topn: int) -> list[Hit]:
        rows = self._index.execute(_SEARCH, (words, topn))
        return [Hit(url, title, " ".join(snippet.split())) for url, title, snippet in rows]

    async def open(self, url: str) -> Page:
        page = self._pages.get(url)
        if page is None:
            raise refused(f"{url!r} is not a page of this corpus; search for one")
        return page

    async def aclose(self) -> None:
        self._index.close()
