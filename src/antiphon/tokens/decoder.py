"""Ids → pieces, as they stream."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

from .pieces import Control, Piece
from .tokenizer import Tokenizer


class PieceDecoder:
    """Turns sampled ids into pieces, chunk by chunk; the texts of one chunk are merged.

    A character cut between ids is held back until it is whole; bytes that can never become a character are one U+FFFD
    for each maximal bad sequence, as the UTF-8 decoder of the Unicode standard says. A control ends a held character.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._piece = tokenizer.piece
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Iterable[int]) -> list[Piece]:
        pieces: list[Piece] = []
        run: list[bytes] = []
        for id in ids:
            piece = self._piece(id)
            if isinstance(piece, bytes):
                run.append(piece)
                continue
            self._flush(run, pieces, final=True)
            run = []
            pieces.append(piece)
        self._flush(run, pieces, final=False)
        return pieces

    def close(self) -> list[Piece]:
        """What was held back: half a character becomes U+FFFD."""
        pieces: list[Piece] = []
        self._flush([], pieces, final=True)
        return pieces

    def _flush(self, run: list[bytes], pieces: list[Piece], *, final: bool) -> None:
        text = self._utf8.decode(b"".join(run), final)
        if final:
            self._utf8.reset()
        if text:
            pieces.append(text)


class ControlScanner:
    """Text → pieces, for engines that give text only and for models whose vocabulary lacks the controls.

    A spelling is a control wherever it occurs: leftmost, then longest, whatever way the text was cut. Only a tail that
    may still become a spelling is held back. Stop strings are found the same way: a stop is a control of the caller's.
    """

    def __init__(self, controls: Iterable[Control]) -> None:
        self._controls = {control.spelling: control for control in controls if control.spelling}
        longest_first = sorted(self._controls, key=len, reverse=True)
        self._spelling = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._prefixes = {s[:n] for s in longest_first for n in range(1, len(s))}
        self._reach = max(map(len, longest_first), default=1) - 1
        self._held = ""

    def feed(self, text: str) -> list[Piece]:
        return self._scan(self._held + text, last=False)

    def close(self) -> list[Piece]:
        """What was held back; it can no longer become more than it is."""
        return self._scan(self._held, last=True)

    def _scan(self, text: str, *, last: bool) -> list[Piece]:
        pieces: list[Piece] = []
        start = 0
        hold = len(text) if last else self._open_tail(text, start)
        while (found := self._spelling.search(text, start)) and found.start() < hold:
            if found.start() > start:
                pieces.append(text[start : found.start()])
            pieces.append(self._controls[found.group()])
            start = found.end()
            hold = len(text) if last else self._open_tail(text, start)
        if start < hold:
            pieces.append(text[start:hold])
        self._held = text[hold:]
        return pieces

    def _open_tail(self, text: str, start: int) -> int:
        """Where the first tail begins that is a proper prefix of a spelling; the text's end when there is none."""
        for i in range(max(start, len(text) - self._reach), len(text)):
            if text[i:] in self._prefixes:
                return i
        return len(text)
