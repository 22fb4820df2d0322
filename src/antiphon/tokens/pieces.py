"""The two alphabets. A piece is ordinary text (`str`) or a control token (`Control`).

Formats speak pieces and never see ids. Text that a user typed is a `str` whatever it spells, so it cannot become
structure: it has another type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


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


def spell(pieces: Iterable[Piece]) -> str:
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


_HALF = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL)


def whole_pairs(text: str) -> str:
    """The JSON text, in which each escape of a lone surrogate is one of U+FFFD."""
    return _HALF.sub(lambda found: r"\ufffd" if found[1] else found[0], text)


def utf8(text: str) -> bytes:
    """The bytes of the well-formed text."""
    return well_formed(text).encode()


# What every vocabulary can do.


class Tokenizer(Protocol):
    """A vocabulary. Stateless and shared by all requests; safe to call from several threads."""

    @property
    def name(self) -> str:
        """Which vocabulary this is; two tokenizers of one name give the same ids."""

    @property
    def size(self) -> int:
        """Ids are 0 … size - 1; not every one need be in use."""

    @property
    def controls(self) -> Mapping[Control, int]:
        """The control tokens and their ids."""

    def encode(self, text: str) -> list[int]:
        """Ids of ordinary text: control spellings in it stay text. A lone surrogate becomes U+FFFD."""

    def encode_up_to(self, text: str, limit: int) -> list[int]:
        """The same, or where they are more than ``limit``, the first ``limit`` + 1: no more work is done than that.

        Between the parts of a long text other threads can run.
        """

    def encode_following(self, text: str, *, control: bool = False) -> list[int] | None:
        """Ids of text that goes on after other text, or after a ``control``; None: they are those of `encode`.

        So it is in most vocabularies. Others begin each text, or the first one, with a blank, and this one without.
        """

    @property
    def strips(self) -> Mapping[Control, Strip]:
        """The controls that take blanks away from the texts beside them."""

    def fewest(self, text: str) -> int:
        """How many ids a text has at least, found without encoding it; 0 where that is not known."""

    def piece(self, id: int) -> bytes | Control:
        """The bytes of an ordinary id (need not be whole characters), or the control that it is; O(1).

        An id outside the vocabulary, or one without text, is b"".
        """

    def control_id(self, control: Control) -> int | None:
        """The id of a control, None when the vocabulary lacks it."""


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The ids as one text, controls spelled out, bytes that are not UTF-8 as U+FFFD: for people and for reports."""
    pieces = (tokenizer.piece(id) for id in ids)
    return b"".join(p if isinstance(p, bytes) else p.spelling.encode() for p in pieces).decode("utf-8", "replace")
