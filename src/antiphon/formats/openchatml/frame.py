"""A frame as it was read, and how it was written."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.conversation import End, Message
from antiphon.errors import Position

from .head import Head
from .spelling import CALL, END, RETURN

MAX_HEAD = 4096
"""Characters between ``<|start|>`` and ``<|message|>``; a head that is longer is not one."""
MAX_ASIDE = 65_536
"""Characters outside frames that one finding holds."""
FOOTERS = {END: End.END, CALL: End.CALL, RETURN: End.RETURN}


@dataclass(frozen=True, slots=True)
class Trivia:
    """How a frame was written: the blanks before it, its head, its body. None: the canonical way.

    ``synthetic`` is a call id that the text does not carry (A-O12, A-O15).
    """

    before: str | None = None
    head: str | None = None
    body: str | None = None
    synthetic: str | None = None


@dataclass(slots=True)
class Frame:
    """A message as read, with the places that a finding about it can point to."""

    message: Message
    head: Head
    start: Position
    head_text: str
    body: Position
    footer: Position
    trivia: Trivia | None
    literal: bool = False
    bodiless: bool = False
