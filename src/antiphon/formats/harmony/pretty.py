"""A prompt or a reply in stretches of controls, headers and text, for display."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from antiphon.tokens import Control, Piece, Tokenizer

from .controls import ENDS, MESSAGE, START


class Span(msgspec.Struct, frozen=True):
    """A stretch of one kind. ``id`` is a control's, where the vocabulary is known."""

    kind: Literal["control", "envelope", "text"]
    text: str
    id: int | None = None


def spans(pieces: Iterable[Piece], tokenizer: Tokenizer | None = None, *, in_reply: bool = False) -> Iterator[Span]:
    """The spans of a rendering, or of a reply, which begins inside an envelope (``in_reply``)."""
    envelope = in_reply
    for piece in pieces:
        if not isinstance(piece, Control):
            yield Span("envelope" if envelope else "text", piece)
            continue
        envelope = (envelope or piece == START) and piece != MESSAGE and piece not in ENDS
        yield Span("control", piece.spelling, tokenizer.control_id(piece) if tokenizer else None)
