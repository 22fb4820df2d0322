"""What every vocabulary can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .pieces import Control


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

    def encode_following(self, text: str) -> list[int] | None:
        """Ids of text that goes on after other text; None: they are those of `encode`, as in most vocabularies.

        Others begin each text with a blank, and this one without.
        """

    def fewest(self, text: str) -> int:
        """How many ids a text has at least, told without encoding it; 0 where nothing can be told."""

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
