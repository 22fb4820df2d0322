"""A conversation: the only source of truth, from which every prompt and every wire form is made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

from .message import Message, ReasoningEffort, ToolsPart
from .tools import ResponseFormat, ToolNamespace, ToolSpec, described

# What one form of a conversation has and another cannot express: every translation reports it with this value.

LossKind = Literal["semantic", "derivable", "spelling"]
"""``semantic``: its meaning is gone. ``derivable``: a rule restores it. ``spelling``: only how it was written."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that is not in the output: its ``path`` in the conversation, ``what`` it is there, what it becomes.

    ``becomes`` None: nothing stands for it.
    """

    path: str
    what: str
    becomes: str | None = None
    kind: LossKind = "semantic"

    def __str__(self) -> str:
        arrow = f" becomes {self.becomes}" if self.becomes is not None else ""
        return f"{self.path}: {self.what}{arrow}" + ("" if self.kind == "semantic" else f"  ({self.kind})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Values for Harmony's system message, which templates may use too. Dates are handed in, never a clock's."""

    identity: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    knowledge_cutoff: str | None = None
    current_date: date | None = None
    channels: tuple[str, ...] | None = None
    template_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, tools, settings and the format of the answer. ``builtins`` are the server's own tools, by namespace.

    ``verbatim``: the messages say all there is (a transcript in a format's own form), so a format that would add a
    system message, fill in a channel or reorder calls writes them as they stand instead.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    builtins: tuple[ToolNamespace, ...] = ()
    settings: Settings = field(default_factory=Settings)
    response_format: ResponseFormat | None = None
    verbatim: bool = False
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def callable(self) -> tuple[ToolSpec, ...]:
        """The caller's tools that may be called: ``tools``, and those that a result defined (`ToolsPart`)."""
        parts = [part for message in self.messages if message.parts for part in message.parts]
        if not parts:
            return self.tools
        defined = {tool.recipient: tool for part in parts if isinstance(part, ToolsPart) for tool in part.tools}
        for tool in self.tools if defined else ():
            defined.pop(tool.recipient, None)
        return (*self.tools, *defined.values())

    @property
    def offered(self) -> tuple[ToolSpec | str, ...]:
        """Everything that a call may be addressed to: `callable`, then the recipients of ``builtins``."""
        if not self.builtins:
            return self.callable
        return (*self.callable, *(name for namespace in map(described, self.builtins) for name in namespace.recipients))

    def add(self, *messages: Message) -> Conversation:
        """The same conversation with more messages at its end."""
        return replace(self, messages=(*self.messages, *messages))
