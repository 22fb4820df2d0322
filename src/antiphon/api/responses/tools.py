"""The tools of a Responses request: the client's own, the server's, and those that neither has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.conversation import FUNCTIONS, ToolChoice, ToolNamespace, ToolSpec
from antiphon.tools import Offer, Router, Tool
from antiphon.tools.mcp import ClientToolSet
from antiphon.tools.mcp.tool_set import McpTool
from antiphon.wire.definitions import (
    DOMAINS,
    NAME,
    NAMESPACE,
    chosen_tools,
    custom_tool,
    impossible,
    no_such_tool,
    read_function,
)
from antiphon.wire.errors import refused
from antiphon.wire.typed_tools import RESPONSES, SEARCH

from .mcp_tools import McpName, check_choices, check_own_server, echo_of, is_clients, needs_approval
from .mcp_tools import allowed_of as allowed_clients
from .open_items import ClientTool
from .schema import ChosenTool, McpFilter, NamespacedTool, ResponsesTool, ResponsesToolChoice, TokensRequest

# Settings of tools that run here, in the words of OpenAI's: what cannot be honoured is refused by its name.


def check_settings(tool: ResponsesTool, path: str) -> list[str]:
    """The paths of settings that change nothing. Raises `RequestError` at one that would, and cannot be had."""
    if tool.filters and any(tool.filters.values()):
        raise impossible(f"{path}.filters", DOMAINS)
    ignored = [name for name in ("search_context_size", "user_location") if getattr(tool, name) is not None]
    container = tool.container
    if isinstance(container, str):
        raise impossible(f"{path}.container", 'a container is that of its responses; send {"type": "auto"}.')
    if container is not None:
        if container.file_ids:
            raise impossible(f"{path}.container.file_ids", "code here reads no files of the client.")
        if container.network_policy and container.network_policy.get("type") != "disabled":
            raise impossible(f"{path}.container.network_policy", "code here has no network.")
        ignored += ["container.memory_limit"] if container.memory_limit is not None else []
    return [f"{path}.{name}" for name in ignored]


def allowed_of(tool: ResponsesTool, specs: Sequence[ToolSpec], path: str) -> list[ToolSpec]:
    """Returns the allowed tools of a server, by default all. Raises `RequestError` for an unknown one."""
    allowed, path = tool.allowed_tools, f"{path}.allowed_tools"
    if isinstance(allowed, McpFilter):
        if allowed.read_only:
            raise impossible(f"{path}.read_only", "it is not known which tools only read.")
        allowed, path = allowed.tool_names, f"{path}.tool_names"
    if allowed is None:
        return list(specs)
    by_name = {spec.name.removeprefix(f"{tool.server_label}__"): spec for spec in specs}
    for i, name in enumerate(allowed):
        if name not in by_name:
            raise refused(f"{path}[{i}]", f"the server has no tool {name[:64]!r}.")
    return [spec for name, spec in by_name.items() if name in allowed]


_NAMESPACES = {"web_search": "browser", "code_interpreter": "python"}
LEFT_OUT = ("web_search", "tool_search")
"""Types that agents list in every request, whoever serves it: left out where they are not there, and named; no others.

A search has dates behind its name. Only this API can do so: its answer lists the tools that it was made with.
"""
NO_SERVERS: Mapping[str, ClientToolSet] = {}


class Tools(msgspec.Struct, frozen=True):
    """Tools that a request offers the model. ``dropped``: paths left out.

    ``served``: recipients that the server runs; ``gated``: those that run when the client approves each call.
    Tools of the client's that come when its search finds them are among ``offers``, and not among ``specs``.
    ``named``: how recipients of the client's MCP servers are called there. ``unlisted``: why tools of the client's
    server under a label could not be listed.
    """

    specs: tuple[ToolSpec, ...]
    builtins: tuple[ToolNamespace, ...]
    offers: dict[str, ClientTool]
    served: frozenset[str]
    router: Router | None
    echo: list[dict[str, Any]]
    dropped: tuple[str, ...]
    gated: frozenset[str] = frozenset()
    named: Mapping[str, McpName] = msgspec.field(default_factory=dict)
    unlisted: Mapping[str, str] = msgspec.field(default_factory=dict)


def read_tools(
    tools: Sequence[ResponsesTool],
    server: Offer | None,
    *,
    always: bool,
    most: int | None,
    clients: Mapping[str, ClientToolSet] = NO_SERVERS,
) -> Tools:
    """The request's tools; ``always``: all of the server's too. Raises `RequestError` for one that is malformed.

    ``clients`` are the client's own MCP servers by their labels, with the tools that they were found to have.
    """
    if most is not None and len(tools) > most:
        raise refused("tools", f"there are {len(tools)} tools; at most {most} are possible.")
    searches = any(tool.type == "tool_search" and tool.execution == "client" for tool in tools)
    reader = _Reader(server, clients, searches=searches)
    for i, tool in enumerate(tools):
        reader.read(tool, f"tools[{i}]")
    if always:
        reader.serve_all()
    return reader.done()


class _Reader:
    def __init__(self, server: Offer | None, clients: Mapping[str, ClientToolSet], *, searches: bool) -> None:
        self._server = server
        self._searches = searches
        self._clients = clients
        self._gated: set[str] = set()
        self._named: dict[str, McpName] = {}
        self._remote: list[Tool] = []
        self._specs: dict[str, ToolSpec] = {}
        self._builtins: dict[str, ToolNamespace] = {}
        self._offers: dict[str, ClientTool] = {}
        self._served: set[str] = set()
        self._echo: list[dict[str, Any]] = []
        self._dropped: list[str] = []

    def done(self) -> Tools:
        return Tools(
            tuple(self._specs.values()),
            tuple(self._builtins.values()),
            self._offers,
            frozenset(self._served),
            self._router(),
            self._echo,
            tuple(self._dropped),
            frozenset(self._gated),
            self._named,
            {label: server.error for label, server in self._clients.items() if server.error},
        )

    def _router(self) -> Router | None:
        """Routes to the server's tools, and to those of the client's servers."""
        own = self._server.router if self._server else None
        if not self._remote:
            return own
        return Router(self._remote) if own is None else own.beside(self._remote)

    def read(self, tool: ResponsesTool, path: str) -> None:
        match tool.type:
            case "function" | "custom":
                named = _named(tool, path)
                self._offer(named, None, path)
                self._echo.append(_echo(named))
            case kind if kind in RESPONSES or (kind == "tool_search" and tool.execution == "client"):
                self._typed(tool, path)
            case "namespace":
                self._namespace(tool, path)
            case "mcp" if is_clients(tool) and (tool.server_label or "") in self._clients:
                self._client_server(tool, path, self._clients[tool.server_label or ""])
            case "mcp":
                self._mcp(tool, path)
            case _ if self._serve(tool):
                self._dropped += check_settings(tool, path)
                container = {"container": {"type": "auto"}} if tool.type == "code_interpreter" else {}
                self._echo.append(_plain(tool) | container)
            case kind if kind in LEFT_OUT or kind.startswith("web_search"):
                self._dropped.append(f"{path}.type={kind[:64]}")
            case kind:
                server, ours = self._server, _NAMESPACES
                there = (one for one in ours if server is not None and server.has(ours[one]))
                raise no_such_tool(
                    kind, path, ("function", "custom", "namespace", "mcp", *RESPONSES, *there), by=ours.get(kind)
                )

    def _mcp(self, tool: ResponsesTool, path: str) -> None:
        """Tools of one of the server's own MCP servers, by its label."""
        check_own_server(tool, path)
        specs = self._labelled(tool.server_label or "") if self._server is not None else []
        if not specs:
            message = f"this server has no MCP server {(tool.server_label or '')[:64]!r}."
            raise refused(f"{path}.server_label", message, code="unsupported_parameter")
        self._add([], allowed_of(tool, specs, path))
        if tool.server_description is not None:
            self._dropped.append(f"{path}.server_description")
        self._echo.append(_plain(tool))

    def _client_server(self, tool: ResponsesTool, path: str, server: ClientToolSet) -> None:
        """Tools of a server of the client's; none where they could not be listed."""
        if self._server is not None and self._server.has(server.label):
            raise refused(f"{path}.server_label", "this server has tools of that label; choose another.")
        if not server.error:
            check_choices(tool, path, server.all)
        allowed = {one.name: one for one in allowed_clients(server.all, tool.allowed_tools)}
        for remote in server.tools:
            if isinstance(remote, McpTool) and remote.name in allowed:
                if remote.spec.name in self._specs:
                    message = f"another tool is named {remote.spec.name!r}; choose another label."
                    raise refused(f"{path}.server_label", message)
                self._specs[remote.spec.name] = remote.spec
                self._named[remote.recipient] = McpName(server.label, remote.name)
                self._remote.append(remote)
                approved = needs_approval(allowed[remote.name], tool.require_approval)
                (self._gated if approved else self._served).add(remote.recipient)
        self._echo.append(echo_of(tool))

    def _typed(self, tool: ResponsesTool, path: str) -> None:
        """A tool that the client runs and that is given by its type."""
        environment = tool.environment or {}
        if environment.get("type", "local") != "local":
            hint = 'Send {"type": "local"}, run the commands, and send back what they print.'
            raise impossible(f"{path}.environment.type", "commands are run by the client, none is run here.", hint)
        if environment.get("skills"):
            raise impossible(f"{path}.environment.skills", "tell of them in the instructions.")
        if tool.type in self._specs:
            raise refused(f"{path}.type", f"another tool is named {tool.type!r}.")
        self._offers[tool.type] = ClientTool(tool.type, kind=tool.type)
        search = replace(SEARCH, description=tool.description or SEARCH.description,
                         parameters=SEARCH.parameters if tool.parameters is None else tool.parameters)  # fmt: skip
        self._specs[tool.type] = RESPONSES.get(tool.type, search)
        self._echo.append(_plain(tool))

    def _namespace(self, tool: ResponsesTool, path: str) -> None:
        if not tool.name or "." in tool.name or not NAME.fullmatch(tool.name):
            raise refused(f"{path}.name", NAMESPACE)
        for i, inner in enumerate(tool.tools or []):
            self._offer(inner, tool.name, f"{path}.tools[{i}]")
        inner_echo = [_echo(inner) for inner in tool.tools or []]
        self._echo.append({**_plain(tool), "description": tool.description or "", "tools": inner_echo})

    def _offer(self, tool: NamespacedTool, namespace: str | None, path: str) -> None:
        """A tool of the client's. In a namespace the model calls it ``namespace.name``."""
        if tool.type not in ("function", "custom"):
            raise no_such_tool(tool.type, path, ("function", "custom"))
        spec = read_function(tool, path, namespace=namespace, taken=self._offers.keys() | self._specs.keys())
        at, form = f"{path}.format", tool.format
        if tool.type == "custom":
            spec = custom_tool(spec, form.type if form else "text", form, at, at)
        self._offers[spec.name] = ClientTool(tool.name, namespace, tool.type, f"{at}.definition")
        if not (tool.defer_loading and self._searches):
            self._specs[spec.name] = spec
            self._dropped += [f"{path}.defer_loading"] if tool.defer_loading else []

    def _serve(self, tool: ResponsesTool) -> bool:
        """Adds a tool that runs in the server; False where the server does not have it.

        A search that may not leave the client's own world is none that ours could make.
        """
        if self._server is None or tool.external_web_access is False:
            return False
        kind = "web_search" if tool.type.startswith("web_search") else tool.type
        if kind in _NAMESPACES:
            spaces = [space for space in self._server.builtins if space.name == _NAMESPACES[kind]]
            return self._add(spaces, self._labelled(_NAMESPACES[kind]))
        return False

    def _labelled(self, label: str) -> list[ToolSpec]:
        assert self._server is not None
        return [spec for spec in self._server.specs if spec.name.startswith(f"{label}__")]

    def serve_all(self) -> None:
        if self._server is not None:
            self._add(self._server.builtins, self._server.specs)

    def _add(self, namespaces: Sequence[ToolNamespace], specs: Sequence[ToolSpec]) -> bool:
        """Whether there was anything to add."""
        assert self._server is not None
        for space in namespaces:
            self._builtins[space.name] = space
            self._served |= {r for r in self._server.router.recipients if r.partition(".")[0] == space.name}
        for spec in specs:
            self._specs.setdefault(spec.name, spec)
            if self._specs[spec.name] is spec:
                self._served.add(spec.recipient)
        return bool(namespaces or specs)


def read_choice(wire: TokensRequest, tools: Tools) -> ToolChoice:
    """Resolution X-23: auto where there are tools, else none, which needs no word of its own: nothing can be called.

    ``allowed_tools`` is a hard limit.
    """
    something = bool(tools.specs or tools.builtins)
    match wire.tool_choice:
        case None:
            return ToolChoice()
        case "none":
            return ToolChoice("none")
        case "auto" if not something:
            return ToolChoice()
        case "auto" | "required" as mode:
            choice = ToolChoice(mode)
        case "any":
            choice = ToolChoice("required")
        case str() as name:
            choice = _chosen(ResponsesToolChoice(type="function", name=name), tools)
        case ResponsesToolChoice() as chosen:
            choice = _chosen(chosen, tools)
    if not something:
        hint = next(
            iter(tools.unlisted.values()),
            'Known: auto, none, required, or a tool that is sent: {"type": "function", "name": "…"}.',
        )
        raise refused("tool_choice", "there are no tools to choose from.", hint=hint)
    return choice


def _chosen(choice: ResponsesToolChoice, tools: Tools) -> ToolChoice:
    if choice.type == "allowed_tools":
        if not choice.tools:
            raise refused("tool_choice.tools", "must list tools.", code="missing_required_parameter")
        names = [name for i, tool in enumerate(choice.tools) for name in _names(tool, tools, f"tool_choice.tools[{i}]")]
        return ToolChoice(choice.mode, tuple(dict.fromkeys(names)))
    single = ChosenTool(
        type=choice.type, name=choice.name, namespace=choice.namespace, server_label=choice.server_label
    )
    return ToolChoice("required", tuple(_names(single, tools, "tool_choice")), once=True)


def _names(tool: ChosenTool, tools: Tools, path: str) -> Iterator[str]:
    """Yields the names by which the model calls a chosen tool; several for a namespace or a server."""
    if tool.type in ("function", "custom", "tool_search", *RESPONSES):
        name = tool.type if tool.type == "tool_search" or tool.type in RESPONSES else tool.name or ""
        name = f"{tool.namespace}.{name}" if tool.namespace else name
        own = [spec for spec in tools.specs if spec.name in tools.offers]
        served = [spec for spec in tools.specs if spec.recipient in tools.served]
        yield from chosen_tools(name, f"{path}.name" if tool.name else path, own, served, tools.builtins)
        return
    if tool.type == "mcp" and (tool.server_label or "") in tools.unlisted:
        raise refused(f"{path}.server_label", tools.unlisted[tool.server_label or ""])
    clients = [r for r in tools.named if tools.named[r].server_label == tool.server_label] if tool.type == "mcp" else []
    if clients:
        chosen = [r for r in clients if tool.name is None or tools.named[r].name == tool.name]
        if not chosen:
            raise refused(f"{path}.name", f"the server has no tool {(tool.name or '')[:64]!r} here.")
        yield from chosen
        return
    namespace = _NAMESPACES.get("web_search" if tool.type.startswith("web_search") else tool.type)
    label = tool.server_label if tool.type == "mcp" else namespace
    found = [r for r in sorted(tools.served) if r.startswith((f"{FUNCTIONS}.{label}__", f"{label}.")) or r == label]
    if tool.type == "mcp" and tool.name is not None:
        found = [recipient for recipient in found if recipient == f"{FUNCTIONS}.{label}__{tool.name}"]
    if tool.type == "namespace":
        found = [name for name in tools.offers if name.startswith(f"{tool.name}.")]
    if not found:
        raise refused(f"{path}.type", f"no tool of type {tool.type[:64]!r} is there to choose.")
    yield from found


def _named(tool: ResponsesTool, path: str) -> NamespacedTool:
    if tool.name is None:
        raise refused(f"{path}.name", f"a {tool.type} tool needs it.", code="missing_required_parameter")
    return NamespacedTool(
        type=tool.type,
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        strict=tool.strict,
        format=tool.format,
        defer_loading=tool.defer_loading,
    )


def _echo(tool: NamespacedTool) -> dict[str, Any]:
    fields = {"type": tool.type, "name": tool.name, "description": tool.description}
    if tool.type == "custom":
        return {**fields, "format": msgspec.to_builtins(tool.format) if tool.format else {"type": "text"}}
    later = {"defer_loading": True} if tool.defer_loading else {}
    return {**fields, "parameters": tool.parameters, "strict": tool.strict, **later}


def _plain(tool: ResponsesTool) -> dict[str, Any]:
    """A tool as it was given, null left out."""
    fields: dict[str, Any] = msgspec.to_builtins(tool)
    return {name: value for name, value in fields.items() if value is not None}
