"""A chat request → a turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

import msgspec

from antiphon.config import Limits
from antiphon.conversation import Conversation, Message, ReasoningEffort, ResponseFormat, Settings, ToolChoice, ToolSpec
from antiphon.conversation.calls import GivenCalls, OpenCalls
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import TurnRequest
from antiphon.generation.request import unchanged
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import Offer
from antiphon.wire.definitions import (
    at_grammar,
    chosen_tools,
    custom_tool,
    no_such_tool,
    read_function,
    read_response_format,
)
from antiphon.wire.dialect import Dialect, session_name
from antiphon.wire.errors import refused
from antiphon.wire.sampling import check_stream_options, logit_bias, output_limit, overflow, sampled, stop_strings

from .messages import to_messages
from .schema import ChatRequest, FunctionDefinition, NamedTool, ResponseFormatObject, Tool, ToolChoiceObject

# The tools and the response format of a chat body, read once for the server, conversions and programs.


def read_tools(
    tools: Sequence[Tool], path: str = "tools", *, any_name: bool = False, customs: bool = False
) -> tuple[ToolSpec, ...]:
    """The function tools of the list at ``path``. Raises `RequestError` at the first that is none, or malformed.

    ``any_name`` lets names pass that no API would take, and a name that is there twice; ``customs``: custom tools too.
    """
    specs: list[ToolSpec] = []
    names: set[str] = set()
    for i, tool in enumerate(tools):
        specs.append(read_tool(tool, f"{path}[{i}]", names, any_name=any_name, customs=customs))
        names.add(specs[-1].name)
    return tuple(specs)


def read_tool(
    tool: Tool, path: str, taken: Collection[str] = (), *, any_name: bool = False, customs: bool = False
) -> ToolSpec:
    """The function tool at ``path``, whose name is none of ``taken``; ``customs``: or a custom tool.

    Raises `RequestError`.
    """
    if customs and tool.type == "custom":
        custom, at = tool.custom, f"{path}.custom"
        if custom is None:
            raise refused(at, "a custom tool needs it.", code="missing_required_parameter")
        spec = read_function(FunctionDefinition(custom.name, custom.description), at, taken=taken)
        kind, grammar = (custom.format.type, custom.format.grammar) if custom.format else ("text", None)
        return custom_tool(spec, kind, grammar, f"{at}.format", f"{at}.format.grammar")
    if tool.type != "function":
        raise no_such_tool(tool.type, path, ("function", "and, by server_tools, those of the server"))
    if tool.function is None:
        raise refused(f"{path}.function", "a function tool needs it.", code="missing_required_parameter")
    return read_function(tool.function, f"{path}.function", taken=taken, any_name=any_name)


def read_format(wire: ResponseFormatObject | None, path: str = "response_format") -> ResponseFormat | None:
    """The answer's format; None for ``text``. Raises `RequestError` at what its type needs and lacks."""
    return read_response_format(wire, wire.json_schema, path, f"{path}.json_schema") if wire is not None else None


class Reading(msgspec.Struct, frozen=True):
    """How a request is read: by which dialect, within which limits, on which day, for whom.

    ``earlier`` frames are the history of a session, to which the request's messages are added. ``stream``: whether
    the answer is streamed, as its route found out. ``server``: the server's tools that are offered beside the caller's.
    ``customs``: whether the answer can have calls of custom tools.
    """

    dialect: Dialect
    limits: Limits
    today: date | None = None
    tenant: Tenant = NOBODY
    earlier: tuple[Message, ...] = ()
    stream: bool = False
    server: Offer | None = None
    customs: bool = False


_GRAMMAR = "tools[{}].custom.format.grammar.definition"


def to_turn(wire: ChatRequest, reading: Reading) -> TurnRequest:
    """The turn that the request describes. Raises `RequestError` naming the field; the plan checks ranges."""
    limits, dialect = reading.limits, reading.dialect
    _check_possible(wire, reading)
    check_stream_options(wire.stream_options, stream=reading.stream)
    for check in dialect.checks:
        check(wire)
    if len(wire.messages) > limits.max_messages:
        raise refused("messages", f"there are {len(wire.messages)} messages; at most {limits.max_messages} are read.")
    if wire.n is not None and not 1 <= wire.n <= limits.max_n:
        raise refused("n", f"{wire.n} choices; from 1 to {limits.max_n} are possible.")
    own, server = _tools(wire.tools or [], reading), reading.server
    tools, builtins = (*own, *(server.specs if server else ())), server.builtins if server else ()
    choice = _tool_choice(wire, own, server)
    nothing = choice.mode == "none"
    grammars = {i: _GRAMMAR.format(i) for i, tool in enumerate(wire.tools or ()) if tool.type == "custom"}
    effort = wire.reasoning_effort
    turn = TurnRequest(
        conversation=Conversation(
            messages=(
                *reading.earlier,
                *to_messages(
                    wire.messages,
                    continue_last=bool(wire.continue_final_message),
                    earlier=(OpenCalls if dialect.strict_calls else GivenCalls)(reading.earlier),
                    in_order=dialect.tools_answer_in_order,
                ),
            ),
            tools=() if nothing else tools,
            builtins=() if nothing else builtins,
            settings=Settings(
                reasoning_effort=ReasoningEffort(effort) if effort else None,
                current_date=reading.today,
                template_kwargs=wire.chat_template_kwargs or {},
            ),
            response_format=read_format(wire.response_format),
        ),
        n=1 if wire.n is None else wire.n,
        max_tokens=_most_tokens(wire),
        most_tokens=dialect.max_output,
        documented=dialect.defaults,
        fallback=dialect.fallback,
        overflow=overflow(wire.error_behavior),
        logit_bias=logit_bias(wire.logit_bias, limits),
        logprobs=_logprobs(wire),
        prompt_logprobs=wire.prompt_logprobs,
        return_token_ids=bool(wire.return_token_ids),
        explain_prefix=bool(wire.explain_prefix),
        prefix_policy=wire.prefix_policy or "bridge",
        storable=wire.store is not False,
        stop=stop_strings(wire.stop, dialect),
        ignore_eos=bool(wire.ignore_eos),
        thinking=False if effort == "none" and wire.enable_thinking is None else wire.enable_thinking,
        thinking_token_budget=wire.thinking_token_budget,
        tool_choice=choice,
        parallel_tool_calls=wire.parallel_tool_calls is not False,
        tenant=reading.tenant.asking(affinity=wire.prompt_cache_key, salt=wire.cache_salt),
        reword=partial(at_grammar, places=grammars) if grammars else unchanged,
    )
    return sampled(turn, wire)


def check_begins(wire: ChatRequest) -> None:
    """Raises `UnsupportedError` for an answer that is neither to be begun nor to be continued."""
    if wire.add_generation_prompt is False and not wire.continue_final_message:
        raise UnsupportedError(
            "add_generation_prompt cannot be false: an answer is begun.",
            position=Position(path="add_generation_prompt"),
            hint="Say continue_final_message to go on with the last message.",
        )


def _check_possible(wire: ChatRequest, reading: Reading) -> None:
    """Refuses by name the fields that no engine here can honour: ignoring one would answer another question."""
    session = session_name(wire.session_id) is not None
    impossible = {
        "sequence_start": (wire.sequence_start is not None and not session, "Name a session_id."),
        "sequence_end": (wire.sequence_end is not None and not session, "Name a session_id."),
        "n": (session and (wire.n or 1) > 1, "A session has one history."),
        "continue_final_message": (session and wire.continue_final_message, "Not in a session."),
        "best_of": (wire.best_of is not None and wire.best_of != 1, None),
        "prompt_logprobs": (reading.stream and wire.prompt_logprobs is not None, "They come with a whole answer."),
    }
    if wire.add_generation_prompt and wire.continue_final_message:
        raise refused("continue_final_message", "cannot be together with add_generation_prompt.")
    for name, (requested, hint) in impossible.items():
        if requested:
            raise UnsupportedError(f"{name} cannot be honoured.", position=Position(path=name), hint=hint)


def _most_tokens(wire: ChatRequest) -> int | None:
    if wire.max_completion_tokens is None:
        return output_limit("max_tokens", wire.max_tokens)
    return output_limit("max_completion_tokens", wire.max_completion_tokens)


def _tools(tools: list[Tool], reading: Reading) -> tuple[ToolSpec, ...]:
    """The caller's own; none of them has the name of a tool of the server's."""
    dialect = reading.dialect
    if dialect.max_tools is not None and len(tools) > dialect.max_tools:
        raise refused("tools", f"there are {len(tools)} tools; at most {dialect.max_tools} are possible.")
    own = read_tools(tools, customs=reading.customs)
    served = {spec.name for spec in reading.server.specs} if reading.server else set()
    for i, tool in enumerate(own):
        if tool.name in served:
            raise refused(f"tools[{i}].{tools[i].type}.name", f"{tool.name!r} is a tool of this server.")
    return own


def _tool_choice(wire: ChatRequest, own: tuple[ToolSpec, ...], server: Offer | None) -> ToolChoice:
    """Resolution X-23: auto where there are tools, else none, which needs no word of its own: nothing can be called."""
    match wire.tool_choice:
        case None:
            return ToolChoice()
        case "none":
            return ToolChoice("none")
        case "auto" | "required" as mode:
            choice = ToolChoice(mode)
        case "any":  # Mistral's word
            choice = ToolChoice("required")
        case str() as name:
            choice = ToolChoice("required", (name,), once=True)
        case ToolChoiceObject() as chosen:
            choice = _chosen(chosen)
    specs, builtins = (server.specs, server.builtins) if server else ((), ())
    if not (own or specs or builtins):
        hint = 'Known: auto, none, required, or a tool that is sent: {"type": "function", "function": {"name": "…"}}.'
        raise refused("tool_choice", "there are no tools to choose from.", hint=hint)
    names = [one for name in choice.names for one in chosen_tools(name, "tool_choice", own, specs, builtins)]
    return replace(choice, names=tuple(dict.fromkeys(names)))


def _chosen(choice: ToolChoiceObject) -> ToolChoice:
    if choice.type != "allowed_tools":
        chosen = NamedTool(choice.function, choice.type, choice.custom)
        return ToolChoice("required", (_name(chosen, "tool_choice"),), once=True)
    if choice.allowed_tools is None:
        raise refused("tool_choice.allowed_tools", "must list tools.", code="missing_required_parameter")
    allowed = choice.allowed_tools
    places = (f"tool_choice.allowed_tools.tools[{i}]" for i in range(len(allowed.tools)))
    return ToolChoice(allowed.mode, tuple(map(_name, allowed.tools, places)))


def _name(tool: NamedTool, path: str) -> str:
    named = tool.function if tool.type == "function" else tool.custom
    if named is None:
        raise refused(f"{path}.{tool.type}", "must name a tool.", code="missing_required_parameter")
    return named.name


def _logprobs(wire: ChatRequest) -> int | None:
    """Resolution X-24: ``top_logprobs`` needs ``logprobs``; 0 of them request nothing, as LMDeploy's client has it."""
    if wire.top_logprobs and not wire.logprobs:
        raise refused("top_logprobs", "logprobs must be true for it.")
    return (wire.top_logprobs or 0) if wire.logprobs else None
