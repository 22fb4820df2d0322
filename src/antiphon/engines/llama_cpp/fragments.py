"""Ids whose bytes are not whole characters, and how to find those that an engine did not report.

llama.cpp's server holds an id back while the text so far ends inside a character, and never sends it: the event that
completes the character names only its last id, all the bytes, and (by a counter) how many ids they took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from antiphon.tokens import Tokenizer

Pieces = Iterable[tuple[int, bytes]]


class Fragments:
    """The parts of a vocabulary that are not whole characters. ``Fragments(())`` knows none and fills nothing."""

    def __init__(self, pieces: Pieces) -> None:
        """``pieces`` are (id, bytes) of all ordinary ids, or of any part of them that has the fragments and bytes."""
        self._ids: dict[bytes, int] = {}
        self._bytes: dict[int, bytes] = {}
        for id, data in pieces:
            if len(data) == 1 or not is_whole(data):
                self._ids.setdefault(data, id)
                self._bytes[id] = data

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Fragments:
        """Those of a whole vocabulary; takes a moment (a tenth of a second for 50,000 ids)."""
        pieces = ((id, tokenizer.piece(id)) for id in range(tokenizer.size))
        return cls((id, piece) for id, piece in pieces if isinstance(piece, bytes))

    def piece(self, id: int) -> bytes:
        """The bytes of a fragment; b"" for any other id."""
        return self._bytes.get(id, b"")

    def fill(self, text: bytes, tail: tuple[int, ...], missing: int) -> tuple[int, ...]:
        """The ids that spell ``text``, given its last ids and that ``missing`` ids before them are missing.

        Each missing id ended inside a character, which leaves one answer in all but odd cases (the longest pieces
        first then). Where nothing fits, as in text that was never UTF-8, the bytes are spelled one by one: the text
        is then right, and the ids are not those sampled. An unknown vocabulary gives ``tail``.
        """
        end = b"".join(map(self.piece, tail))
        if end and text.endswith(end):
            head = next(self._split(text, 0, len(text) - len(end), missing), None)
            if head is not None:
                return (*head, *tail)
        spelled = [self._ids.get(bytes((byte,))) for byte in text]
        whole = tuple(id for id in spelled if id is not None)
        return whole if len(whole) == len(text) > 0 else tail

    def _split(self, text: bytes, start: int, stop: int, count: int) -> Iterator[tuple[int, ...]]:
        """The ways to spell ``text[start:stop]`` with ``count`` fragments that each end inside a character."""
        if count == 0:
            if start == stop:
                yield ()
            return
        for cut in range(stop - (count - 1), start, -1):
            id = self._ids.get(text[start:cut])
            if id is None or is_whole(text[:cut]):
                continue
            for rest in self._split(text, cut, stop, count - 1):
                yield (id, *rest)


def is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
