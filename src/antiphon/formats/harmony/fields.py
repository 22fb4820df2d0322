"""What a header is made of, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from antiphon.conversation import Channel, End, Intent, Message, Role
from antiphon.tokens import Control


class Opened(Enum):
    """How a header began: its role was given by the prompt, after ``<|start|>``, or with no start at all."""

    GIVEN = auto()
    START = auto()
    MISSING = auto()


@dataclass(frozen=True, slots=True)
class Section:
    """The text after a control of the header; the first section follows the start."""

    control: Control
    text: str


@dataclass(slots=True)
class Header:
    """What a header says. ``repairs`` are (code, text); ``rest`` is what of an unfinished header is content.

    ``spelled`` is its text as it came.
    """

    role: Role
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    constrained: bool = False
    unknown_role: str | None = None
    repairs: list[tuple[str, str]] = field(default_factory=list)
    rest: str = ""
    spelled: str = ""

    def message(self, text: str = "", end: End = End.END) -> Message:
        """A message under this header. Resolution A-H09: commentary to nobody is a preamble."""
        to_nobody = self.role is Role.ASSISTANT and self.recipient is None
        return Message(
            role=self.role,
            text=text,
            name=self.name,
            recipient=self.recipient,
            channel=self.channel,
            content_type=self.content_type,
            constrained=self.constrained,
            intent=Intent.PREAMBLE if to_nobody and self.channel == Channel.COMMENTARY else None,
            end=end,
        )
