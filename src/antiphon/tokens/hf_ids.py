"""The library `tokenizers`, called so that a long text does not hold up the threads beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SHORT = 2**11
"""Characters that are encoded under the interpreter's lock; they take about a millisecond."""


def library_ids(library: Tokenizer, text: str) -> list[int]:
    """The library's ids of a text. Its call for several texts gives the lock away, its call for one does not."""
    if len(text) <= _SHORT:
        found: list[int] = library.encode(text, add_special_tokens=False).ids
        return found
    ids: list[int] = library.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return ids
