"""What `parse` reads, while it comes: text with controls spelled out, or token ids."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from antiphon.errors import ParseError, Position
from antiphon.formats import Format
from antiphon.tokens import ControlScanner, Piece, PieceDecoder, Tokenizer

from .progress import progress_bar
from .streams import length, unreadable

CHUNK = 1 << 16
HEAD = 24
"""So many characters of the input decide whether it is ids, and whether it is a transcript."""

_BEGINS_WITH_A_CONTROL = re.compile(r"\s*\[?\s*(?:199999|2000(?:0\d|1[0-8]))(?!\w)")
_BORDER = re.compile(r"[\s,\[\]]+")


def texts(file: Path) -> Iterator[str]:
    """A file's text as it comes, half characters buffered; ``-`` is standard input. Raises `ConfigError`."""
    decoder = getincrementaldecoder("utf-8")("replace")
    for chunk in _chunks(file):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _chunks(file: Path) -> Iterator[bytes]:
    try:
        with (
            open(0, "rb", closefd=False) if str(file) == "-" else file.open("rb") as source,
            progress_bar(file.name, length(file)) as progress,
        ):
            done = 0
            while chunk := source.read1(CHUNK):  # as much as is there
                yield chunk
                done += len(chunk)
                progress(done, None)
    except OSError as error:
        raise unreadable(file, error) from None


def holds_ids(source: Iterator[str]) -> tuple[bool, Iterator[str]]:
    """Whether a reply is ids (it begins with the number of one of Harmony's controls); and the source, whole."""
    head, source = first(source)
    return _BEGINS_WITH_A_CONTROL.match(head) is not None, source


def first(source: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The source's first characters, `HEAD` at least where it has as many; and the source, whole."""
    head = ""
    for text in source:
        head += text
        if len(head.lstrip()) >= HEAD:
            break
    return head, chain([head], source)


def spelled_pieces(source: Iterator[str], format: Format) -> Iterator[list[Piece]]:
    """The pieces of a text whose control spellings are controls."""
    scanner = ControlScanner(format.controls)
    for text in source:
        yield scanner.feed(text)
    yield scanner.close()


def decoded_pieces(source: Iterator[str], tokenizer: Tokenizer) -> Iterator[list[Piece]]:
    """The pieces of ids: a JSON array, or numbers with blanks between them. Raises `ParseError` for an unknown one."""
    decoder = PieceDecoder(tokenizer)
    for ids in read_ids(source):
        if unknown := next((id for id in ids if not tokenizer.piece(id)), None):
            raise ParseError(
                f"the vocabulary {tokenizer.name} has no token {unknown}",
                code="unknown_id",
                hint="Name the --model whose ids these are.",
            )
        yield decoder.feed(ids)
    yield decoder.close()


def read_ids(source: Iterator[str]) -> Iterator[list[int]]:
    """The ids as they come; a number is whole when something follows it. Raises `ParseError` where there is none."""
    partial, place = "", 0
    for text in chain(source, [" "]):
        *words, partial = _BORDER.split(partial + text)
        ids: list[int] = []
        for word in filter(None, words):
            ids.append(_id(word, place))
            place += 1
        if ids:
            yield ids


def _id(word: str, place: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 20):
        raise ParseError(
            f"{word[:40]!r} is no token id",
            code="not_an_id",
            position=Position(path=f"$[{place}]"),
            hint="Ids are a JSON array of numbers, or numbers with blanks between them.",
        )
    return int(word)
