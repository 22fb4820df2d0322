"""A message's header: its text while it arrives, and its fields once it is read (`header_reader`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import msgspec

from antiphon.conversation import FUNCTIONS, Channel, End, Intent, Message, Role
from antiphon.tokens import Control

from .controls import START

CHANNELS = tuple(channel.value for channel in Channel)
ROLES = tuple(role.value for role in Role)
CONTENT_TYPES = frozenset({"json", "code", "text", "markdown"})

_FIELD_WORDS = frozenset({*CHANNELS, *ROLES, *CONTENT_TYPES})
_RUN = ("exec", "execute", "run", "code")
"""Functions that models give a tool which has none."""
LIMIT = 256
"""Characters of a reply's header without ``<|message|>``, after which the rest is read as content (R-08)."""


class HeaderStart(Enum):
    """How a header began: its role is in the prompt, ``<|start|>`` precedes it, or neither."""

    IN_PROMPT = auto()
    CONTROL = auto()
    MISSING = auto()


class HeaderSection(msgspec.Struct, frozen=True):
    """The text after one control of the header. The first section has ``<|start|>``, even where none was."""

    control: Control
    text: str


@dataclass(slots=True)
class Header:
    """The fields of one header.

    ``source`` is its text as it arrived, ``repairs`` are (code, text) of the incidents to report. ``complete``: it
    ended with ``<|message|>``; else ``rest`` is the part of the text that is content.
    """

    role: Role
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    constrained: bool = False
    unknown_role: str | None = None
    repairs: list[tuple[str, str]] = field(default_factory=list)
    complete: bool = True
    rest: str = ""
    source: str = ""

    def message(self, text: str = "", end: End = End.END) -> Message:
        """A message with these fields. Commentary to no tool is a preamble (A-H09)."""
        message = Message(
            role=self.role,
            text=text,
            name=self.name,
            recipient=self.recipient,
            channel=self.channel,
            content_type=self.content_type,
            constrained=self.constrained,
            end=end,
        )
        announces = self.role is Role.ASSISTANT and self.channel == Channel.COMMENTARY and not message.is_call
        return replace(message, intent=Intent.PREAMBLE) if announces else message


class HeaderBuffer:
    """The sections of a header that is still arriving, or of text that may turn out to be one."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self.begin(HeaderStart.MISSING)

    def begin(self, start: HeaderStart) -> None:
        """Empty the buffer for a header that begins in this way."""
        self.start = start
        self.sections: list[HeaderSection] = []
        self._length = 0
        self._skipped = False

    def open_section(self, control: Control) -> None:
        """Begin a section; the control counts as one character of the header's length."""
        self.sections.append(HeaderSection(control, ""))
        self._length += 1

    def add(self, text: str) -> None:
        """Append text to the last section."""
        if self.sections:
            last = self.sections[-1]
            self.sections[-1] = HeaderSection(last.control, last.text + text)
        elif text:
            self.sections.append(HeaderSection(START, text))
        self._length += len(text)

    def skip_control(self) -> None:
        """Count a control that belongs to no header; a space stands for it, so that it separates words."""
        self.add(" ")
        self._length += 1
        self._skipped = True

    def take(self) -> str:
        """Return the text, and empty the buffer."""
        text = self.text
        self.sections, self._length = [], 0
        return text

    @property
    def room(self) -> int:
        """How many characters the header may still grow by; negative when it is too long."""
        return self._limit - self._length

    def written(self, role: Role) -> tuple[str, ...]:
        """The texts and the spellings of the controls between them, from the author on (`Message.header`).

        ``role`` is the one in the prompt. Empty for a header without its start, or with a control that belongs to none.
        """
        if self.start is HeaderStart.MISSING or self._skipped:
            return ()
        lead = role.value if self.start is HeaderStart.IN_PROMPT else ""
        sections = self.sections
        if sections and sections[0].control == START:
            lead, sections = lead + sections[0].text, sections[1:]
        return lead, *(piece for section in sections for piece in (section.control.spelling, section.text))

    @property
    def text(self) -> str:
        return "".join(section.text for section in self.sections)

    @property
    def is_plain_text(self) -> bool:
        """Whether it is text alone, with neither ``<|start|>`` before it nor a control in it."""
        return self.start is not HeaderStart.CONTROL and [s.control for s in self.sections] == [START]


def may_become_field(word: str, names: Collection[str]) -> bool:
    """Whether a header that was cut behind this word may have gone on as one: it begins a field, or an offered name."""
    return any(field.startswith(word) for field in (*_FIELD_WORDS, "to=", *names))


def offered_names(recipients: Collection[str]) -> Mapping[str, str]:
    """Name → recipient: each offered recipient, its name (``bash`` for ``functions.bash``), and what is behind a dot.

    One that two recipients share is left out, and so is a role, a channel or a content type. Every name is also meant
    as a function's and with ``__`` for its dots, and a tool without functions by a function of it (``python.exec``).
    """
    names = {recipient: recipient.partition(".")[2] or recipient for recipient in recipients}
    ends = [(name[at + 1 :], one) for one, name in names.items() for at, sign in enumerate(name) if sign == "."]
    given, shared = Counter(names.values()), Counter(end for end, _ in ends)
    unique = {end: one for end, one in ends if shared[end] == 1 and end not in given}
    unique |= {name: one for one, name in names.items() if given[name] == 1}
    unique = {name: one for name, one in unique.items() if name not in _FIELD_WORDS}
    run = {f"{one}.{word}": one for one in recipients if "." not in one for word in _RUN}
    known = {**unique, **run, **{recipient: recipient for recipient in recipients}}
    respelled = {name.replace(*signs): one for name, one in known.items() for signs in ((".", "__"), ("__", "."))}
    known = respelled | known
    return {f"{FUNCTIONS}.{name}": one for name, one in known.items()} | known
