"""A frame as it was read, and how it was written."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.conversation import End, Message, MessageStarted, TextDelta

from .finding import Finding, Place
from .head import Head
from .spelling import CALL, END, RETURN

MAX_HEAD = 4096
"""Characters between ``<|start|>`` and ``<|message|>``; a head that is longer is not one."""
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
class Places:
    """Where a frame, its body and its footer begin."""

    start: Place
    body: Place
    footer: Place


@dataclass(slots=True)
class Frame:
    """A message as read, with the places that a finding about it can point to."""

    message: Message
    head: Head
    head_text: str
    places: Places
    trivia: Trivia | None
    literal: bool = False
    bodiless: bool = False


Found = MessageStarted | TextDelta | Frame | Finding
"""What reading frames gives."""


def frame_of(
    head: Head,
    text: str,
    end: End,
    places: Places,
    *,
    head_text: str,
    before: str | None,
    body_text: str | None = None,
    literal: bool = False,
    bodiless: bool = False,
) -> Frame:
    """The frame that a head and a body make. ``before`` and ``body_text`` are None where they are canonical."""
    plain = head.canonical and before is None and body_text is None
    trivia = None if plain else Trivia(before, None if head.canonical else head_text, body_text)
    message = Message(
        role=head.role, text=text, name=head.name, recipient=head.recipient, channel=head.channel,
        content_type=head.content_type, constrained=head.constrained, call_id=head.call_id, intent=head.intent,
        end=end, extra={} if trivia is None else {"openchatml": trivia},
    )  # fmt: skip
    return Frame(message, head, head_text, places, trivia, literal, bodiless)
