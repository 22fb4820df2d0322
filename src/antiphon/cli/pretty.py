"""Prompts and replies for a terminal: controls with their ids, envelopes and texts each in a colour of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from antiphon.tokens import Piece, Tokenizer

from .terminal import safe

if TYPE_CHECKING:
    from antiphon.formats.harmony import Span

_CONTROL, _ID, _ENVELOPE, _OFF = "\x1b[1;36m", "\x1b[2m", "\x1b[33m", "\x1b[0m"


def has_colour() -> bool:
    """A terminal has, unless NO_COLOR is set; a pipe has not."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def pretty(
    pieces: Iterable[Piece], tokenizer: Tokenizer | None, *, in_reply: bool = False, colour: bool = False
) -> Iterator[str]:
    """The pieces as they are to be printed, one by one; a message on lines of its own."""
    from antiphon.formats.harmony import spans  # here and not above: few look at the envelopes

    first = True
    for span in spans(pieces, tokenizer, in_reply=in_reply):
        if (span.kind, span.text) == ("control", "<|start|>") and not first:
            yield "\n"
        yield _coloured(span) if colour else span.text + _id(span)
        first = False


def _coloured(span: Span) -> str:
    text = safe(span.text)
    match span.kind:
        case "control":
            return f"{_CONTROL}{text}{_OFF}{_ID}{_id(span)}{_OFF}"
        case "envelope":
            return f"{_ENVELOPE}{text}{_OFF}"
        case "text":
            return text


def _id(span: Span) -> str:
    return "" if span.id is None else f"[{span.id}]"
