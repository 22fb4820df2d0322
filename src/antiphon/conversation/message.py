"""The noun of nouns: one message is one frame (one Harmony message)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from antiphon.errors import VisibilityError

from .tools import ResponseFormat, ToolNamespace, ToolSpec, definition

# What a system or a developer message says when it is not plain text: values, which a format words in its own way.


class ReasoningEffort(StrEnum):
    """Resolution X-51: the seven words in use; a format maps them to the nearest that its model knows."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The channels that a model may speak on, and whether each message must name one."""

    valid: tuple[str, ...]
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemContent:
    """Harmony's system message (HAR-07, HAR-49). What is None is not written; ``tools`` maps a key to its namespace."""

    identity: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    start_date: str | None = None
    knowledge_cutoff: str | None = None
    channels: ChannelConfig | None = None
    tools: Mapping[str, ToolNamespace] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeveloperContent:
    """Harmony's developer message (HAR-08, HAR-59): instructions, the caller's tools, the form of the answer."""

    instructions: str | None = None
    tools: Mapping[str, ToolNamespace] | None = None
    response_format: ResponseFormat | None = None


class Role(StrEnum):
    """Speaker of a message, ordered by authority (Harmony and OpenChatML §4): ``Role.SYSTEM.outranks(Role.USER)``."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    def outranks(self, other: Role) -> bool:
        """Whether instructions of this role come before those of the other: system first, tools last."""
        order = list(Role)
        return order.index(self) < order.index(other)


class Channel(StrEnum):
    """The channels that both specifications know; ``Message.channel`` is a string, because models write others too."""

    ANALYSIS = "analysis"
    COMMENTARY = "commentary"
    FINAL = "final"


class Intent(StrEnum):
    """OpenChatML §6: what a commentary message is for."""

    PREAMBLE = "preamble"
    STATUS = "status"
    DEBUG = "debug"


class End(StrEnum):
    """How a message ended. ``NONE``: it did not (cut off, or a prefix that the model is to continue)."""

    END = "end"
    CALL = "call"
    RETURN = "return"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text among other parts of a content."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolsPart(TextPart):
    """Definitions of tools within a result: from here on the model may call them (`Conversation.callable`).

    ``text`` is what a format writes that has no words of its own for them, one JSON text a line.
    """

    tools: tuple[ToolSpec, ...] = ()

    @classmethod
    def of(cls, tools: Sequence[ToolSpec]) -> ToolsPart:
        return cls("\n".join(json.dumps(definition(tool), ensure_ascii=False) for tool in tools), tuple(tools))


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A part of a kind that is carried as the wire gave it (image, audio, file …). ``path``: its place in a request."""

    kind: str
    data: Any
    path: str = field(default="", compare=False, repr=False)


IMAGES = frozenset({"image", "image_url", "input_image"})
"""The kinds of parts that are images, whoever's they are."""


Part = TextPart | OpaquePart | SystemContent | DeveloperContent
"""A piece of a message's content; the last two are what Harmony writes in system and developer messages."""


def image_url(part: OpaquePart) -> str | None:
    """The address of an image, as any wire spells it: a data URL where it came in base64; None where it has none."""
    match part.data:
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)} | {"source": {"type": "url", "url": str(url)}}:
            return url
        case {"source": {"type": "base64", "data": str(data), **more}} | {"base64": str(data), **more}:
            return f"data:{more.get('media_type') or more.get('mime') or 'image/png'};base64,{data}"
        case _:
            return None


def text_and_parts(parts: Sequence[Part]) -> tuple[str, tuple[Part, ...]]:
    """The ``text`` and ``parts`` of a `Message` whose content is these; it has no parts where they are one text."""
    text = "".join([part.text for part in parts if isinstance(part, TextPart)])
    several = len(parts) > 1 or any(type(part) is not TextPart for part in parts)
    return text, tuple(parts) if several else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One frame of a conversation.

    ``text`` is as received: no Unicode, newline or JSON normalisation; a tool call's text is its arguments, raw.
    ``name`` is the tool's qualified name for role tool (``functions.f``), else the speaker's. ``recipient`` is whom it
    is for (``functions.f``, ``browser.search``, ``assistant`` …). ``channel`` None means that none was given; see
    `effective_channel`. ``constrained``: whether ``content_type`` was marked with ``<|constrain|>``.
    ``parts`` is empty for a plain text; otherwise ``text`` is the concatenation of its text parts.
    ``header``: the header that a parser of Harmony read, its texts and the spellings of its controls by turns
    (``("assistant", "<|channel|>", "commentary to=functions.f ", "<|constrain|>", "json")``); empty where it can be
    written in one way only. It is written so again while it is read as these fields, and is no part of equality.
    """

    role: Role
    text: str = ""
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    constrained: bool = False
    call_id: str | None = None
    intent: str | None = None
    end: End = End.END
    parts: tuple[Part, ...] = ()
    header: tuple[str, ...] = field(default=(), compare=False)
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def effective_channel(self) -> str:
        """Resolution A-O01: a missing channel reads as final."""
        return self.channel if self.channel is not None else Channel.FINAL

    @property
    def is_call(self) -> bool:
        """An assistant's message to a tool (never to ``assistant``, ``user`` or ``all``)."""
        to = self.recipient
        return to is not None and self.role is Role.ASSISTANT and to not in ("assistant", "user", "all")

    @property
    def is_preamble(self) -> bool:
        """Resolutions A-H09, A-O33: commentary to no tool that announces what comes next and may be shown."""
        return (
            self.role is Role.ASSISTANT
            and self.channel == Channel.COMMENTARY
            and not self.is_call
            and self.intent == Intent.PREAMBLE
        )


# One function decides what an end user may see; every output calls it (resolutions A-O32 … A-O34).


@dataclass(frozen=True, slots=True)
class DebugCapability:
    """For a caller whom the server's owner allows to see hidden channels. ``holder`` says who, for the log."""

    holder: str


PARAGRAPH = "\n\n"
"""Between two messages, for clients that have one text a turn."""


def visible_to_user(message: Message) -> bool:
    """Shown: the user's own messages and the assistant's, where they are final, and preambles. Hidden: all else."""
    match message.role:
        case Role.USER:
            return message.effective_channel == Channel.FINAL
        case Role.ASSISTANT:
            if message.intent == Intent.DEBUG:
                return False
            return (message.effective_channel == Channel.FINAL and not message.is_call) or message.is_preamble
        case _:
            return False


def require_visible(message: Message, *, debug: DebugCapability | None = None) -> Message:
    """The message, if it may be shown to an end user; else `VisibilityError` with code ``E-PERM-VISIBILITY``."""
    if debug is not None or visible_to_user(message):
        return message
    raise VisibilityError(
        f"a {message.role} message on channel {message.effective_channel!r} is not for end users",
        hint="Only final answers and preambles are shown; a debug capability is needed for more.",
    )
