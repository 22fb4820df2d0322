"""A frame's head: what is between ``<|start|>`` and ``<|message|>`` (§6, §15)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from antiphon.conversation import FUNCTIONS, End, Message, Role
from antiphon.errors.place import Place
from antiphon.tokens import Piece

from .finding import Finding, Problem, did_you_mean, nearest
from .spelling import BY_SPELLING, CHANNEL, CONSTRAIN, START, encode_value

ATTRIBUTES = ("to", "call_id", "name", "intent", "content_type")
"""The order of the grammar, which is canonical (A-O02)."""
COMPARED = 8
"""So many words of a head are compared with the controls."""
_IN_CONTROL = re.compile(r"<\|([A-Za-z_]{2,20})\|?>")
INTENTS = ("preamble", "status", "debug")


def near_control(text: str) -> str | None:
    """A hint for a text in which a control is misspelled; None for another one."""
    slips = misspelled_controls(islice(_IN_CONTROL.finditer(text), COMPARED))
    return next((f"Did you mean {meant} by {found[0]}?" for found, meant in slips), None)


def misspelled_controls(
    words: Iterable[re.Match[str]], others: Iterable[str] = ()
) -> Iterator[tuple[re.Match[str], str]]:
    """Words in ``<| |>`` that are no control, each with the one that is meant; ``others`` mean none."""
    names = [spelling[2:-2] for spelling in BY_SPELLING]
    meanings = dict.fromkeys(others, "")
    for found in words:
        word = found[1]
        if word not in meanings:
            meanings[word] = word if word in names else nearest(word, names) or ""
        if meanings[word] and found[0] not in BY_SPELLING:
            yield found, f"<|{meanings[word]}|>"


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The namespaces that recipients and tool authors may name (A-O06, A-O43)."""

    namespaces: frozenset[str] = frozenset({FUNCTIONS, "browser", "python"})

    def declare(self, names: Sequence[str]) -> ToolNames:
        return ToolNames(self.namespaces | set(names))

    def knows(self, name: str) -> bool:
        """``functions.x``, ``browser.x``, ``python``, or a namespace that the transcript declares."""
        namespace, dot, rest = name.partition(".")
        return namespace in self.namespaces and bool(rest if dot else namespace != FUNCTIONS)

    def addresses(self, recipient: str | None) -> bool:
        """Whether a message may go to ``recipient``: nobody in particular, the assistant, or a tool."""
        return recipient is None or recipient == "assistant" or self.knows(recipient)

    def did_you_mean(self, name: str, otherwise: str) -> str:
        """A hint for a name that is of no namespace here: the namespace that it may be meant to have."""
        namespace, dot, rest = name.partition(".")
        if dot and rest:
            return did_you_mean(namespace, self.namespaces, otherwise)
        return f"Did you mean {FUNCTIONS}.{name}? {otherwise}" if not dot else otherwise

    def qualify(self, name: str) -> str:
        """A-O42: a bare tool name belongs to ``functions``."""
        return name if "." in name or self.knows(name) else f"{FUNCTIONS}.{name}"


@dataclass(slots=True)
class Head:
    """The fields of a head. Offsets of ``problems`` and ``places`` count from its first character."""

    role: Role = Role.USER
    author: str = ""
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    constrained: bool = False
    call_id: str | None = None
    intent: str | None = None
    length: int = 0
    problems: list[Problem] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    canonical: bool = False
    is_unknown: bool = False

    @property
    def is_legacy_reply(self) -> bool:
        """HIP-1.3: a reply whose role is the tool's name; it need not carry a call id (A-O15)."""
        return self.role is Role.TOOL and self.author != Role.TOOL

    @property
    def needs_body(self) -> bool:
        """Whether a rule depends on what the body is: all but those of users, and of assistants to nobody."""
        return self.constrained or self.recipient is not None or self.role in (Role.SYSTEM, Role.DEVELOPER, Role.TOOL)

    def findings(self, spelled: str, start: Place) -> list[Finding]:
        """The problems with their places, for a frame that begins at ``start``."""
        lead = START.spelling
        return [
            Finding(p.code, p.message, place.position(), p.hint, p.warning, spelled, p.rule)
            for p in self.problems
            for place in [start.after(lead + spelled[: p.offset])]
        ]

    def message(self, text: str = "", end: End = End.END, trivia: object = None) -> Message:
        """A message with such a head; ``trivia``: how its frame was written, None for the canonical way."""
        return Message(
            role=self.role, text=text, name=self.name, recipient=self.recipient, channel=self.channel,
            content_type=self.content_type, constrained=self.constrained, call_id=self.call_id, intent=self.intent,
            end=end, extra={} if trivia is None else {"openchatml": trivia},
        )  # fmt: skip

    def matches(self, message: Message) -> bool:
        """Whether the head still has the message's fields; then its spelling may be used again."""
        return _in_head(self) == _in_head(message)


_in_head = attrgetter("role", "name", "recipient", "channel", "content_type", "constrained", "call_id", "intent")
"""The fields of a message that its head has."""


def head_pieces(message: Message, *, author: str | None = None) -> Iterator[Piece]:
    """The canonical head: attributes in the grammar's order, all in the start section (§6, §15).

    ``author``: the role of a legacy reply, which is its tool's name (HIP-1.3).
    """
    values = {
        "to": message.recipient,
        "call_id": message.call_id,
        "name": message.name if author is None else None,
        "intent": message.intent,
        "content_type": None if message.constrained else message.content_type,
    }
    attributes = (f" {key}={encode_value(value)}" for key, value in values.items() if value is not None)
    yield (author or message.role.value) + "".join(attributes)
    if message.channel is not None:
        yield CHANNEL
        yield encode_value(message.channel)
    if message.constrained:
        yield CONSTRAIN
        yield encode_value(message.content_type or "")
