"""A Messages request → a turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.api.chat.read import read_format
from antiphon.config import Limits
from antiphon.conversation import Conversation, ReasoningEffort, ResponseFormat, Settings, ToolChoice, ToolSpec
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.generation import TurnRequest
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import Offer
from antiphon.wire.definitions import DOMAINS, BuiltInName, built_in, chosen_tools, impossible, no_such_tool
from antiphon.wire.errors import refused
from antiphon.wire.sampling import output_limit, sampled
from antiphon.wire.typed_tools import MESSAGES

from .blocks import BlockReader
from .messages import read_messages
from .schema import MessageTokensRequest, MessageTool, MessageToolChoice, ThinkingConfig
from .server_history import Decrypt

# The tools of a Messages request, the client's own and the server's, and which of them the answer may or must call.

MOST = 1024
"""Tools of a request; Claude Code sends more than other clients, with those of its MCP servers."""
NAME = re.compile(r"(?=.{1,128}$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
SERVER_TOOLS: Mapping[str, BuiltInName] = {"web_search": "browser", "code_execution": "python"}
"""Names of Anthropic's tools → ours that they stand for. A type is the name and a date."""
COUNTED = ("search", "")
"""The functions whose calls ``max_uses`` counts: pages may be opened without end."""
_TYPE = re.compile(r"(web_search|code_execution)_[0-9]{8}")
_SETTINGS = ("max_uses", "allowed_domains", "blocked_domains", "user_location", "max_characters", "input_examples")
_DIRECT = 'the model itself calls it; send ["direct"].'
_OWN = frozenset({None, "custom", *MESSAGES})
"""Types of tools that the client runs."""
_EDITORS = frozenset(kind for kind in MESSAGES if kind.startswith("text_editor_"))


class MessageTools(msgspec.Struct, frozen=True):
    """Tools that a request offers: the client's ``own``, and the ``server``'s, None where there are none.

    ``deferred``: the names of own ones that stand where a result refers to them, and not at the head.
    ``shown``: recipients of the server's whose calls the client sees, because it listed them. ``listed``: their names.
    ``ignored``: paths of settings that change nothing.
    """

    own: tuple[ToolSpec, ...] = ()
    deferred: frozenset[str] = frozenset()
    server: Offer | None = None
    shown: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()


def read_tools(tools: Sequence[MessageTool], server: Offer | None, *, always: bool) -> MessageTools:
    """The request's tools; ``always``: all of the server's too. Raises `RequestError` for one that is malformed."""
    if len(tools) > MOST:
        raise refused("tools", f"there are {len(tools)} tools; at most {MOST} are possible.")
    places = [(tool, f"tools[{i}]") for i, tool in enumerate(tools)]
    listed: dict[str, MessageTool] = {}
    for tool, path in places:
        if tool.type not in _OWN:
            name = _server_tool(tool, path, server)
            if name in listed:
                raise refused(f"{path}.name", f"another tool is named {name!r}.")
            listed[name] = tool
    made = _served(listed, server, always=always)
    taken = {*listed, *(spec.name for spec in (made.server.specs if made.server else ()))}
    own: list[ToolSpec] = []
    for tool, path in places:
        if tool.type in _OWN:
            own.append(_read_tool(tool, path, taken))
            taken.add(own[-1].name)
    ignored = [
        f"{path}.{name}"
        for tool, path in places
        for name in _SETTINGS
        if getattr(tool, name) not in (None, [])
        and (tool.type not in _EDITORS if name == "max_characters" else tool.type in _OWN)
    ]
    deferred = frozenset(tool.name for tool in tools if tool.defer_loading and tool.type in _OWN)
    return replace_fields(made, own=tuple(own), deferred=deferred, ignored=tuple(ignored))


def _server_tool(tool: MessageTool, path: str, server: Offer | None) -> str:
    """The name of a tool that runs here. Raises `RequestError` where this server has none such, or not so."""
    kind, found = tool.type or "", _TYPE.fullmatch(tool.type or "")
    ours = SERVER_TOOLS[found[1]] if found else None
    if found is None or ours is None or server is None or not server.has(ours):
        there = (f"{name}_…" for name, one in SERVER_TOOLS.items() if server is not None and server.has(one))
        raise no_such_tool(kind, path, ("custom, with an input_schema", *MESSAGES, *there), by=ours)
    name = found[1]
    if tool.name != name:
        raise refused(f"{path}.name", f"a tool of type {kind!r} is named {name!r}.")
    _check_settings(tool, path)
    return name


def _check_settings(tool: MessageTool, path: str) -> None:
    """Raises `RequestError` at a setting that cannot be honoured."""
    for name in ("allowed_domains", "blocked_domains"):
        if getattr(tool, name):
            raise impossible(f"{path}.{name}", DOMAINS)
    if tool.user_location is not None:
        raise impossible(f"{path}.user_location", "pages are not searched by a place.")
    if tool.allowed_callers is not None and "direct" not in tool.allowed_callers:
        raise impossible(f"{path}.allowed_callers", _DIRECT)
    if tool.max_uses is not None and tool.max_uses < 1:
        raise refused(f"{path}.max_uses", f"is {tool.max_uses}; it must be at least 1.")


def _served(listed: Mapping[str, MessageTool], server: Offer | None, *, always: bool) -> MessageTools:
    """The server's part: the tools that are listed, or all."""
    if server is None or not (listed or always):
        return MessageTools()
    shown: set[str] = set()
    uses: dict[str, int] = {}
    for name, tool in listed.items():
        recipients = server.only({SERVER_TOOLS[name]}).router.recipients
        shown.update(recipients)
        if tool.max_uses is not None:
            uses |= {one: tool.max_uses for one in recipients if (b := built_in(one)) and b.function in COUNTED}
    offer = server if always else server.only({SERVER_TOOLS[name] for name in listed})
    router = offer.router.only(offer.router.recipients, uses=uses)
    return MessageTools(server=replace_fields(offer, router=router), shown=frozenset(shown), listed=frozenset(listed))


def _read_tool(tool: MessageTool, path: str, taken: Collection[str]) -> ToolSpec:
    if tool.name is None:
        raise refused(f"{path}.name", "a tool needs it.", code="missing_required_parameter")
    known = MESSAGES.get(tool.type or "")
    if known is not None:
        _check_typed(tool, known.name, path)
    if not NAME.fullmatch(tool.name):
        raise refused(
            f"{path}.name",
            "must be 1 to 128 of the characters a-z, A-Z, 0-9, _, - and single dots within.",
        )
    if tool.name in taken:
        raise refused(f"{path}.name", f"another tool is named {tool.name!r}.")
    if known is not None:
        return replace(known, strict=tool.strict)
    if tool.input_schema is None:
        raise refused(f"{path}.input_schema", "a tool needs it.", code="missing_required_parameter")
    schema = tool.input_schema if "type" in tool.input_schema else {"type": "object", **tool.input_schema}
    return ToolSpec(tool.name, tool.description or "", schema, strict=tool.strict)


def _check_typed(tool: MessageTool, name: str, path: str) -> None:
    """Raises `RequestError` at what a tool that is given by its type does not have so."""
    if tool.name != name:
        raise refused(f"{path}.name", f"a tool of type {tool.type!r} is named {name!r}.")
    for field_name in ("description", "input_schema"):
        if getattr(tool, field_name) is not None:
            raise refused(f"{path}.{field_name}", f"a tool of type {tool.type!r} has its own.")
    if tool.allowed_callers is not None and "direct" not in tool.allowed_callers:
        raise impossible(f"{path}.allowed_callers", _DIRECT)


def read_choice(choice: MessageToolChoice | None, tools: MessageTools) -> tuple[ToolChoice, bool]:
    """The choice, and whether calls may be made together. Raises `RequestError`."""
    if choice is None:
        return ToolChoice(), True
    parallel, offered = choice.disable_parallel_tool_use is not True, bool(tools.own) or tools.server is not None
    match choice.type:
        case "none":
            return ToolChoice("none"), parallel
        case "auto":
            return ToolChoice(), parallel
        case "any" | "tool" if not offered:
            raise refused("tool_choice", "there are no tools to choose from.")
        case "any":
            return ToolChoice("required"), parallel
        case "tool":
            return _named(choice, tools), parallel


def _named(choice: MessageToolChoice, tools: MessageTools) -> ToolChoice:
    if not choice.name:
        raise refused("tool_choice.name", "must name a tool.", code="missing_required_parameter")
    name = SERVER_TOOLS[choice.name] if choice.name in tools.listed else choice.name
    server = tools.server
    specs, builtins = (server.specs, server.builtins) if server else ((), ())
    return ToolChoice("required", chosen_tools(name, "tool_choice.name", tools.own, specs, builtins), once=True)


TAKEN_EDITS = ("clear_tool_uses_", "clear_thinking_")
"""Edits of a context that save tokens elsewhere: told, for what is not cleared is read all the same."""
_IMPOSSIBLE: Mapping[str, Any] = {
    "container": None, "mcp_servers": [], "thread": None, "compaction": None, "inference_geo": "global",
}  # fmt: skip
"""Fields that would change what is done, and where; with the value that does not."""
_SCHEMA, _TOOL_SCHEMA = ".function.parameters", ".input_schema"


class MessagesReading(msgspec.Struct, frozen=True, kw_only=True):
    """How a request is read: within which limits, on which day, for whom, and what the model can do.

    ``in_place``: its prompts can have the operator's texts between messages. ``bounds``: its thoughts can be bounded.
    ``server``: the server's tools, which a request may list; ``always``: all are offered beside the client's own.
    ``framed``: its format has built-in tools, else they are called as functions.
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


@dataclass(frozen=True, slots=True)
class RequestedMessage:
    """A request that was read: its turn, its tools, and the paths of what was ignored in it."""

    turn: TurnRequest
    tools: MessageTools
    ignored: tuple[str, ...] = field(default=())


def read_request(wire: MessageTokensRequest, reading: MessagesReading) -> RequestedMessage:
    """The turn that is requested. Raises `RequestError` naming the field; the plan checks ranges."""
    check_possible(wire, reading.limits)
    tools = read_tools(wire.tools or [], reading.server, always=reading.always)
    deferred = {tool.name: tool for tool in tools.own if tool.name in tools.deferred}
    head = tuple(tool for tool in tools.own if tool.name not in deferred)
    reader = BlockReader(reading.decrypt, reading.framed, deferred, {tool.name for tool in head})
    messages = read_messages(wire.system, wire.messages, reader, in_place=reading.in_place)
    tools = replace_fields(tools, own=(*head, *(deferred[name] for name in deferred if name in reader.defined)))
    server = tools.server
    choice, parallel = read_choice(wire.tool_choice, tools)
    nothing = choice.mode == "none"
    effort = wire.output_config.effort if wire.output_config else None
    budget = _budget(wire, reading, effort)
    stops = (wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ())
    turn = TurnRequest(
        conversation=Conversation(
            messages=messages,
            tools=() if nothing else (*head, *(server.specs if server else ())),
            builtins=() if nothing or server is None else server.builtins,
            settings=_settings(wire, reading, effort),
            response_format=_format(wire),
        ),
        max_tokens=output_limit("max_tokens", wire.max_tokens),
        stop=(*(wire.stop_sequences or ()), *stops),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        tenant=reading.tenant,
        thinking_token_budget=budget,
        reword=reworded,
    )
    unheld = thinks(wire) and wire.thinking and wire.thinking.budget_tokens and budget is None
    ignored: tuple[str, ...] = ("thinking.budget_tokens",) if unheld else ()
    if wire.thinking and wire.thinking.display not in (None, "summarized", "omitted"):
        ignored = (*ignored, "thinking.display")
    if wire.context_management:
        edits = enumerate(wire.context_management.edits or ())
        ignored += tuple(f"context_management.edits[{i}]" for i, edit in edits if edit.keep != "all")
    return RequestedMessage(sampled(turn, wire), tools, (*reader.ignored, *tools.ignored, *ignored))


def check_possible(wire: MessageTokensRequest, limits: Limits) -> None:
    """Raises `RequestError` at what would change the answer and cannot be honoured."""
    if len(wire.messages) > limits.max_messages:
        raise refused("messages", f"there are {len(wire.messages)} messages; at most {limits.max_messages} are read.")
    for name, neutral in _IMPOSSIBLE.items():
        if getattr(wire, name) not in (None, [], {}, "", neutral):
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


def _settings(wire: MessageTokensRequest, reading: MessagesReading, effort: str | None) -> Settings:
    """The effort that is named; else what thinking is to be. Thinking that is not requested is turned off."""
    given = effort or (None if thinks(wire) else "none")
    return Settings(reasoning_effort=ReasoningEffort(given) if given else None, current_date=reading.today)


def _budget(wire: MessageTokensRequest, reading: MessagesReading, effort: str | None) -> int | None:
    """The tokens that a thought may have. An effort that is named comes first where nothing can bound thoughts."""
    if wire.thinking is None or wire.thinking.type != "enabled" or not (reading.bounds or effort is None):
        return None
    return wire.thinking.budget_tokens


def _format(wire: MessageTokensRequest) -> ResponseFormat | None:
    """Reads the form of the answer; a schema is kept to the letter, as this API has it."""
    form = read_format(wire.response_format)
    if form is None or form.kind != "json_schema" or form.strict is not None:
        return form
    return replace(form, strict=True)


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
    if path == "reasoning_effort":
        yield "output_config.effort"
    if path == "thinking_token_budget":
        yield "thinking.budget_tokens"
