"""The two alphabets. A piece is ordinary text (`str`) or a control token (`Control`).

Formats speak pieces and never see ids. Text that a user typed is a `str` whatever it spells, so it cannot become
structure: it has another type.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Control:
    """A control token by its spelling, e.g. ``Control("<|start|>")``."""

    spelling: str

    def __str__(self) -> str:
        return self.spelling


@dataclass(frozen=True, slots=True)
class Strip:
    """Characters that a control takes away: ``before`` from the end of the text before it, ``behind`` likewise."""

    before: str = ""
    behind: str = ""


class SampledText(str):
    """Text together with the ids that the model sampled for it, so that history is never encoded anew.

    ``vocabulary`` names the tokenizer that the ids belong to; another tokenizer ignores them.
    """

    __slots__ = ("ids", "vocabulary")
    ids: tuple[int, ...]
    vocabulary: str

    def __new__(cls, text: str, ids: tuple[int, ...], vocabulary: str) -> SampledText:
        self = super().__new__(cls, text)
        self.ids = ids
        self.vocabulary = vocabulary
        return self

    def __getnewargs__(self) -> tuple[str, tuple[int, ...], str]:  # type: ignore[override]  # str's has the text alone
        """For copies."""
        return str(self), self.ids, self.vocabulary


Piece = str | Control
"""One segment: a `str` piece is encoded by itself, so a format joins texts that its model saw joined."""


def spell(pieces: list[Piece] | tuple[Piece, ...]) -> str:
    """The pieces as one text, controls by their spelling: for people and for models without the controls."""
    return "".join(str(piece) for piece in pieces)


def well_formed(text: str) -> str:
    """The text with each surrogate pair as its character and each lone surrogate as U+FFFD, so that nothing fails."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8(text: str) -> bytes:
    """The bytes of the well-formed text."""
    return well_formed(text).encode()
