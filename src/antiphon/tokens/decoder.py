"""Ids → pieces, as they stream."""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Callable, Iterable, Sequence

from .pieces import Control, Piece, Tokenizer


class PieceDecoder:
    """Turns sampled ids into pieces, chunk by chunk; the texts of one chunk are merged. Linear in the ids.

    A character cut between ids is buffered until it is whole; a control ends it. Bytes that can never become a
    character are one U+FFFD for each maximal bad sequence, as the UTF-8 decoder of the Unicode standard has it.
    """

    __slots__ = ("_buffered", "_piece")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._piece: Callable[[int], bytes | Control] = tokenizer.piece
        self._buffered = b""

    def feed(self, ids: Sequence[int]) -> list[Piece]:
        # Called for every id of every reply: the path without controls is short, and `_text` is written out in it.
        try:
            run = b"".join(map(self._piece, ids))  # type: ignore[arg-type]  # a Control raises the TypeError
        except TypeError:
            return self._with_controls(ids)
        if self._buffered:
            run = self._buffered + run
        text, used = utf_8_decode(run, "replace")
        self._buffered = run[used:]
        return [text] if text else []

    @property
    def buffering(self) -> bool:
        """Whether half a character waits for the rest of it."""
        return bool(self._buffered)

    def close(self) -> list[Piece]:
        """Flushes the buffer: half a character becomes U+FFFD."""
        text = self._text(b"", final=True)
        return [text] if text else []

    def _with_controls(self, ids: Sequence[int]) -> list[Piece]:
        pieces: list[Piece] = []
        run: list[bytes] = []
        for piece in map(self._piece, ids):
            if isinstance(piece, bytes):
                run.append(piece)
                continue
            pieces += (self._text(b"".join(run), final=True), piece)
            run.clear()
        pieces.append(self._text(b"".join(run)))
        return [piece for piece in pieces if piece]

    def _text(self, run: bytes, *, final: bool = False) -> str:
        run = self._buffered + run
        text, used = utf_8_decode(run, "replace", final)
        self._buffered = run[used:]
        return text


class ControlScanner:
    """Text → pieces, for engines that give text only and for models whose vocabulary lacks the controls.

    A spelling is a control wherever it occurs: leftmost, then longest, whatever way the text was cut. Only a tail that
    may still become a spelling is buffered. Stop strings are found the same way: a stop is a control of the caller's.
    """

    def __init__(self, controls: Iterable[Control]) -> None:
        self._controls = {control.spelling: control for control in controls if control.spelling}
        longest_first = sorted(self._controls, key=len, reverse=True)
        self._spelling = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._prefixes = {s[:n] for s in longest_first for n in range(1, len(s))}
        self._reach = max(map(len, longest_first), default=1) - 1
        self.buffered = ""
        """The tail that may still become a spelling."""

    def feed(self, text: str) -> list[Piece]:
        return self._scan(self.buffered + text, last=False)

    def close(self) -> list[Piece]:
        """Flushes the buffer, which can no longer become more than it is."""
        return self._scan(self.buffered, last=True)

    def _scan(self, text: str, *, last: bool) -> list[Piece]:
        pieces: list[Piece] = []
        start = 0
        settled = len(text) if last else self._open_tail(text, start)
        while (found := self._spelling.search(text, start)) and found.start() < settled:
            if found.start() > start:
                pieces.append(text[start : found.start()])
            pieces.append(self._controls[found.group()])
            start = found.end()
            settled = len(text) if last else self._open_tail(text, start)
        if start < settled:
            pieces.append(text[start:settled])
        self.buffered = text[settled:]
        return pieces

    def _open_tail(self, text: str, start: int) -> int:
        """The start of the first tail that is a proper prefix of a spelling; the text's end when there is none."""
        for i in range(max(start, len(text) - self._reach), len(text)):
            if text[i:] in self._prefixes:
                return i
        return len(text)
