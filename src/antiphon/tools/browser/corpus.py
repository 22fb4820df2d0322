"""A folder of pages, searched offline with SQLite's full-text index (FTS5, bm25)."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from antiphon.errors import ConfigError

from .page import Hit, Page, html_page, refused, text_page, unmarked

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
        page = (
            html_page(url, text) if path.suffix.lower().startswith(".htm") else text_page(url, _title(path, text), text)
        )
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


def _title(path: Path, text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return first.lstrip("# ").strip()[:200] or path.stem
