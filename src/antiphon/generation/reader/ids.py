"""Sampled ids and texts → pieces, and which ids a finished text was sampled as."""

from __future__ import annotations

from antiphon.formats import Format
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, SampledText, Tokenizer, utf8


class IdReader:
    """Decodes what an engine samples. An engine without ids gives texts, in which controls are found by spelling."""

    def __init__(self, tokenizer: Tokenizer, format: Format) -> None:
        self._tokenizer = tokenizer
        self._decoder = PieceDecoder(tokenizer)
        self._scanner = ControlScanner(format.controls)
        self._run: list[int] = []

    def feed(self, id: int) -> list[Piece]:
        """The pieces that are whole now; none while a character waits for its other bytes."""
        pieces = self._decoder.feed((id,))
        if not (pieces and isinstance(pieces[-1], Control)):
            self._run.append(id)
        return pieces

    def feed_text(self, text: str) -> list[Piece]:
        return self._scanner.feed(text)

    def close(self) -> list[Piece]:
        """What was buffered and will not become more."""
        return [*self._scanner.close(), *self._decoder.close()]

    def forget(self) -> None:
        """A control was read: the next text begins with the next id."""
        self._run = []

    def as_sampled(self, text: str) -> str:
        """The text with the ids that were sampled since the last control, where they decode to just this text.

        A text that was cut or repaired is another text than theirs, and is encoded anew in the next prompt.
        """
        run, self._run = tuple(self._run), []
        if not text:
            return text
        pieces = [piece for piece in map(self._tokenizer.piece, run) if isinstance(piece, bytes)]
        return SampledText(text, run, self._tokenizer.name) if b"".join(pieces) == utf8(text) else text

    def is_control(self, id: int) -> bool:
        return isinstance(self._tokenizer.piece(id), Control)
