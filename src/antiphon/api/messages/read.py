"""A Messages request → a turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date

import msgspec

from antiphon.api.chat.messages import NOTHING, Recalled
from antiphon.api.chat.tools import read_format
from antiphon.config import Limits
from antiphon.conversation import Conversation, ReasoningEffort, ResponseFormat, Settings
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.generation import TurnRequest
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import Offer
from antiphon.wire.errors import refused
from antiphon.wire.sampling import output_limit, sampled

from .blocks import BlockReader
from .messages import read_messages
from .schema import MessageTokensRequest, ThinkingConfig
from .server_history import Decrypt
from .tools import MessageTools, read_choice, read_tools

CHARACTERS_A_TOKEN = 4
"""Grammars bound thoughts in characters: so many stand for one token of ``thinking.budget_tokens``."""
EFFORTS = ((2048, ReasoningEffort.LOW), (8192, ReasoningEffort.MEDIUM))
"""What a budget below so many tokens is to a model whose thoughts nothing can bound; high beyond them."""
TAKEN_EDITS = ("clear_tool_uses_", "clear_thinking_")
"""Edits of a context that save tokens elsewhere; what is not cleared is read all the same."""
_IMPOSSIBLE = ("container", "mcp_servers", "thread", "compaction")
_SCHEMA, _TOOL_SCHEMA = ".function.parameters", ".input_schema"


class MessagesReading(msgspec.Struct, frozen=True, kw_only=True):
    """How a request is read: within which limits, on which day, for whom, and what the model can do.

    ``in_place``: its prompts can have the operator's texts between messages. ``bounds``: its thoughts can be bounded.
    ``server``: the server's tools, which a request may list; ``always``: all are offered beside the client's own.
    ``framed``: its format has built-in tools, else they are called as functions. ``recalled``: what the model wrote for
    some of the messages.
    """

    limits: Limits
    decrypt: Decrypt
    today: date | None = None
    tenant: Tenant = NOBODY
    in_place: bool = True
    bounds: bool = False
    server: Offer | None = None
    always: bool = False
    framed: bool = True
    recalled: Recalled = msgspec.field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class RequestedMessage:
    """A request that was read: its turn, its tools, and the paths of what was ignored in it."""

    turn: TurnRequest
    tools: MessageTools
    ignored: tuple[str, ...] = field(default=())


def read_request(wire: MessageTokensRequest, reading: MessagesReading) -> RequestedMessage:
    """The turn that is requested. Raises `RequestError` naming the field; the plan checks ranges."""
    check_possible(wire, reading.limits)
    reader = BlockReader(reading.decrypt, reading.framed)
    messages = read_messages(wire.system, wire.messages, reader, in_place=reading.in_place, recalled=reading.recalled)
    tools = read_tools(wire.tools or [], reading.server, always=reading.always)
    server = tools.server
    choice, parallel = read_choice(wire.tool_choice, tools)
    nothing = choice.mode == "none"
    turn = TurnRequest(
        conversation=Conversation(
            messages=messages,
            tools=() if nothing else (*tools.own, *(server.specs if server else ())),
            builtins=() if nothing or server is None else server.builtins,
            settings=_settings(wire, reading),
            response_format=_format(wire),
        ),
        max_tokens=output_limit("max_tokens", wire.max_tokens),
        stop=_stops(wire),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        tenant=reading.tenant,
        max_reasoning=_bound(wire.thinking) if reading.bounds else None,
        reword=reworded,
    )
    return RequestedMessage(sampled(turn, wire), tools, (*reader.ignored, *tools.ignored))


def check_possible(wire: MessageTokensRequest, limits: Limits) -> None:
    """Raises `RequestError` at what would change the answer and cannot be honoured."""
    if len(wire.messages) > limits.max_messages:
        raise refused("messages", f"there are {len(wire.messages)} messages; at most {limits.max_messages} are read.")
    for name in _IMPOSSIBLE:
        if getattr(wire, name) not in (None, [], {}, ""):
            raise UnsupportedError(f"{name}: it cannot be honoured here.", position=Position(path=name))
    for i, edit in enumerate((wire.context_management and wire.context_management.edits) or ()):
        if not edit.type.startswith(TAKEN_EDITS):
            path = f"context_management.edits[{i}].type"
            raise UnsupportedError(f"{path}: {edit.type[:64]!r} cannot be honoured here.", position=Position(path=path))
    _check_thinking(wire.thinking)


def _check_thinking(thinking: ThinkingConfig | None) -> None:
    if thinking is None or thinking.type != "enabled":
        return
    path = "thinking.budget_tokens"
    if thinking.budget_tokens is None:
        raise refused(path, "is needed for type enabled.", code="missing_required_parameter")
    if thinking.budget_tokens < 1:
        raise refused(path, f"is {thinking.budget_tokens}; it must be at least 1.")


def thinks(wire: MessageTokensRequest) -> bool:
    """Whether the answer is to have thinking blocks."""
    return wire.thinking is not None and wire.thinking.type in ("enabled", "adaptive")


def _settings(wire: MessageTokensRequest, reading: MessagesReading) -> Settings:
    """The effort that is named; else what thinking is to be. Thinking that is not requested is turned off."""
    given = wire.output_config.effort if wire.output_config else None
    effort = ReasoningEffort(given) if given else None
    if thinks(wire):
        mapped = None if reading.bounds else _effort(wire.thinking)
        return Settings(reasoning_effort=effort or mapped, current_date=reading.today)
    if effort is not None:
        return Settings(reasoning_effort=effort, current_date=reading.today)
    return Settings(
        reasoning_effort=ReasoningEffort.NONE,
        current_date=reading.today,
        template_kwargs={"enable_thinking": False},
    )


def _effort(thinking: ThinkingConfig | None) -> ReasoningEffort | None:
    if thinking is None or thinking.budget_tokens is None:
        return None
    budget = thinking.budget_tokens
    return next((effort for below, effort in EFFORTS if budget < below), ReasoningEffort.HIGH)


def _bound(thinking: ThinkingConfig | None) -> int | None:
    """The characters that a thought may have."""
    if thinking is None or thinking.type != "enabled" or thinking.budget_tokens is None:
        return None
    return thinking.budget_tokens * CHARACTERS_A_TOKEN


def _format(wire: MessageTokensRequest) -> ResponseFormat | None:
    """What the answer must be; a schema is kept to the letter, as this API has it."""
    form = read_format(wire.response_format)
    if form is None or form.kind != "json_schema" or form.strict is not None:
        return form
    return replace(form, strict=True)


def _stops(wire: MessageTokensRequest) -> tuple[str, ...]:
    more = (wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ())
    return (*(wire.stop_sequences or ()), *more)


def reworded(error: RequestError) -> None:
    """An error of planning names this API's parameter; a prompt that is too long is told as clients look for it."""
    if isinstance(error, ContextError) and error.tokens is not None:
        error.message = f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"
        error.args, error.hint = (error.message,), None
    path = error.position.path if error.position else None
    if path is None:
        return
    renamed = next(_renamed(path), path)
    if renamed != path:
        error.position = Position(path=renamed)
        error.message = error.message.replace(path, renamed)
        error.args = (error.message,)


def _renamed(path: str) -> Iterator[str]:
    if path.startswith("tools["):
        yield path.replace(_SCHEMA, _TOOL_SCHEMA, 1).replace(".function.", ".", 1)
    if path.startswith("stop["):
        yield f"stop_sequences{path[len('stop') :]}"
    if path == "stop":
        yield "stop_sequences"
