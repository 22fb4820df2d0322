"""Questions that MCP servers may ask of the program that calls them, and who answers there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Question of a server to the user: values for ``schema``, an object; or a visit of ``url``, then no values.

    All texts are the server's.
    """

    server: str
    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """``content`` satisfies the schema where ``action`` is accept."""

    action: Action
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SamplingMessage:
    """A message of the prompt that an MCP server wants a model to answer."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """A text that a server wants a model to write, within limits that were checked."""

    server: str
    messages: tuple[SamplingMessage, ...]
    system: str | None
    max_tokens: int
    temperature: float | None
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SamplingAnswer:
    """``complete``: the model ended by itself; else its text reached ``max_tokens``."""

    text: str
    model: str
    complete: bool


Elicit = Callable[[Elicitation], Awaitable[ElicitationAnswer]]
Sample = Callable[[SamplingRequest], Awaitable[SamplingAnswer]]
ShowAddress = Callable[[str, str], Awaitable[None]]
"""Called with the name of a server and an address, where its user signs in with a browser."""


@dataclass(frozen=True, slots=True)
class McpHost:
    """Answers to the questions of servers; what is None is refused, and not offered to servers.

    ``sample`` is for servers whose table has ``sampling``. ``sign_in``: a person is there, who can sign in.
    """

    elicit: Elicit | None = None
    sample: Sample | None = None
    sign_in: ShowAddress | None = None


NOBODY = McpHost()
"""Over HTTP nobody can be asked: the one who asks a model is not the one who runs the server."""
