"""The tools of a Messages request, the client's own and the server's, and which of them the answer may or must call."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from antiphon.conversation import ToolChoice, ToolSpec
from antiphon.errors import Position, UnsupportedError
from antiphon.tools import Offer
from antiphon.wire.built_in import DOMAINS, BuiltInName, built_in, impossible
from antiphon.wire.choosing import chosen_tools
from antiphon.wire.errors import refused

from .schema import MessageTool, MessageToolChoice

MOST = 1024
"""Tools of a request; Claude Code sends more than other clients, with those of its MCP servers."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
SERVER_TOOLS: Mapping[str, BuiltInName] = {"web_search": "browser", "code_execution": "python"}
"""Names of Anthropic's tools → ours that they stand for. A type is the name and a date."""
COUNTED = ("search", "")
"""The functions whose calls ``max_uses`` counts: pages may be opened without end."""
_TYPE = re.compile(r"(web_search|code_execution)_[0-9]{8}")
_SETTINGS = ("max_uses", "allowed_domains", "blocked_domains", "user_location")


class MessageTools(msgspec.Struct, frozen=True):
    """What a request offers: the client's ``own`` tools, and the ``server``'s, None where there are none.

    ``shown``: recipients of the server's whose calls the client sees, because it listed them. ``listed``: their names.
    ``ignored``: paths of settings that change nothing.
    """

    own: tuple[ToolSpec, ...] = ()
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
        if tool.type not in (None, "custom"):
            name = _server_tool(tool, path, server)
            if name in listed:
                raise refused(f"{path}.name", f"another tool is named {name!r}.")
            listed[name] = tool
    made = _served(listed, server, always=always)
    taken = {*listed, *(spec.name for spec in (made.server.specs if made.server else ()))}
    own: list[ToolSpec] = []
    for tool, path in places:
        if tool.type in (None, "custom"):
            own.append(_read_tool(tool, path, taken))
            taken.add(own[-1].name)
    ignored = [
        f"{path}.{name}"
        for tool, path in places
        for name in _SETTINGS
        if tool.type in (None, "custom") and getattr(tool, name) is not None
    ]
    return replace(made, own=tuple(own), ignored=tuple(ignored))


def _server_tool(tool: MessageTool, path: str, server: Offer | None) -> str:
    """The name of a tool that runs here. Raises `RequestError` where this server has none such, or not so."""
    kind, at = tool.type or "", f"{path}.type"
    found = _TYPE.fullmatch(kind)
    if found is None:
        raise UnsupportedError(
            f"{at}: tools of type {kind[:64]!r} are not possible here.",
            position=Position(path=at),
            hint=f"Use tools of your own, with an input_schema, or {', '.join(f'{one}_…' for one in SERVER_TOOLS)}.",
        )
    name = found[1]
    if server is None or not server.has(SERVER_TOOLS[name]):
        raise UnsupportedError(
            f"{at}: tools of type {kind!r} are off in this server.",
            position=Position(path=at),
            hint=f"Its owner turns them on with antiphon serve --tools {SERVER_TOOLS[name]}.",
        )
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
        raise impossible(f"{path}.allowed_callers", 'the model itself calls it; send ["direct"].')
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
    return MessageTools((), replace(offer, router=router), frozenset(shown), frozenset(listed))


def _read_tool(tool: MessageTool, path: str, taken: Collection[str]) -> ToolSpec:
    if tool.name is None:
        raise refused(f"{path}.name", "a tool needs it.", code="missing_required_parameter")
    if not NAME.fullmatch(tool.name):
        raise refused(f"{path}.name", "must be 1 to 128 of the characters a-z, A-Z, 0-9, _ and -.")
    if tool.name in taken:
        raise refused(f"{path}.name", f"another tool is named {tool.name!r}.")
    if tool.input_schema is None:
        raise refused(f"{path}.input_schema", "a tool needs it.", code="missing_required_parameter")
    schema = tool.input_schema if "type" in tool.input_schema else {"type": "object", **tool.input_schema}
    return ToolSpec(tool.name, tool.description or "", schema, strict=tool.strict)


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
