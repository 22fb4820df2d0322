"""``mcp`` tools of servers that the client names: how they are reached, which are offered, and which need approval."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.conversation import Message, TokenLogprob
from antiphon.structs import ready
from antiphon.tools.mcp import ClientServers, ListedTool, McpServer
from antiphon.wire.definitions import impossible
from antiphon.wire.errors import refused

from .event_schema import McpListToolsCompleted, McpListToolsFailed, McpListToolsInProgress, StreamEvent
from .item_schema import McpApprovalRequestItem, McpListToolsItem, Status
from .items import Entry
from .open_items import Place, item_added, item_done
from .schema import McpApproval, McpFilter, ResponsesTool

# Output items of MCP servers that a client named: what they offer, and calls that its user is to approve.


class McpName(msgspec.Struct, frozen=True):
    """A tool of an MCP server, as its client and its server name it."""

    server_label: str
    name: str


class Listing(msgspec.Struct, frozen=True):
    """The tools of a server that were listed for this response, or why they were not."""

    server_label: str
    tools: Sequence[ListedTool]
    error: str = ""


class ApprovedCall(msgspec.Struct, frozen=True):
    """A call that runs before the model goes on; ``request_id`` is that of the item in which it was requested."""

    request_id: str
    named: McpName
    message: Message


class OpenListing:
    """The tools of a server, which are known when the item begins."""

    def __init__(self, place: Place, listing: Listing) -> None:
        self.place = place
        self._listing = listing

    def begin(self) -> list[StreamEvent]:
        return [item_added(self), McpListToolsInProgress(**self.place.at)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        return []

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        return self.listed()

    def listed(self) -> list[StreamEvent]:
        ended = McpListToolsFailed if self._listing.error else McpListToolsCompleted
        return [ended(**self.place.at), item_done(self, "completed")]

    def item(self, status: Status) -> McpListToolsItem:
        listing = self._listing
        if status == "in_progress":
            return McpListToolsItem(id=self.place.id, server_label=listing.server_label)
        return McpListToolsItem(
            id=self.place.id,
            server_label=listing.server_label,
            tools=list(listing.tools),
            error=listing.error or None,
        )


class OpenApprovalRequest:
    """A call that its user is to approve."""

    def __init__(self, place: Place, named: McpName) -> None:
        self.place = place
        self._named = named
        self._arguments: list[str] = []

    def begin(self) -> list[StreamEvent]:
        return [item_added(self)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        self._arguments.append(text)
        return []

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        return [item_done(self, status)]

    def item(self, status: Status) -> McpApprovalRequestItem:
        return McpApprovalRequestItem(
            id=self.place.id,
            server_label=self._named.server_label,
            name=self._named.name,
            arguments="".join(self._arguments),
        )


LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
MOST_HEADERS, LONGEST_HEADERS, LONGEST_DESCRIPTION = 32, 16_384, 2_048
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_OURS = frozenset(
    {
        "accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive",
        "last-event-id", "mcp-protocol-version", "mcp-session-id", "proxy-authorization", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers by which HTTP and the protocol work."""
_SWITCH = "The operator lets clients name servers of their own with tools.client_mcp."


def is_clients(tool: ResponsesTool) -> bool:
    """Whether the tool is an MCP server that the client names by its address."""
    return tool.type == "mcp" and tool.server_url is not None


def check_own_server(tool: ResponsesTool, path: str) -> None:
    """Raises `RequestError` for what only a server of the client's has, where it names one of this server's."""
    own = {
        "server_url": tool.server_url, "connector_id": tool.connector_id, "authorization": tool.authorization,
        "headers": tool.own_headers,
    }  # fmt: skip
    for name, given in own.items():
        if given:
            message = "this server connects to its own MCP servers alone, by server_label."
            raise impossible(f"{path}.{name}", message, None if name == "connector_id" else _SWITCH)
    if tool.require_approval not in (None, "never"):
        raise impossible(f"{path}.require_approval", 'calls run when the model makes them; send "never".')


def read_server(tool: ResponsesTool, path: str, servers: ClientServers) -> McpServer:
    """How the client's server is reached. Raises `RequestError` at what cannot be honoured.

    Whether its address may be connected to is not judged here.
    """
    if tool.connector_id is not None:
        raise impossible(f"{path}.connector_id", "there are no connectors; name a server_url.")
    if not LABEL.fullmatch(tool.server_label or ""):
        raise refused(f"{path}.server_label", "a label is a letter and up to 63 of a-z, A-Z, 0-9, _ and -.")
    if len(tool.server_description or "") > LONGEST_DESCRIPTION:
        raise refused(f"{path}.server_description", f"has more than {LONGEST_DESCRIPTION} characters.")
    headers = dict(tool.own_headers or {})
    _check_headers(headers, f"{path}.headers")
    if tool.authorization is not None:
        if any(name.lower() == "authorization" for name in headers):
            raise refused(f"{path}.authorization", "cannot be together with a header of that name.")
        if not tool.authorization or not _VALUE.fullmatch(tool.authorization):
            raise refused(f"{path}.authorization", "must be printable ASCII.")
        headers["Authorization"] = f"Bearer {tool.authorization}"
    if sum(len(name) + len(value) for name, value in headers.items()) > LONGEST_HEADERS:
        raise refused(f"{path}.headers", f"they have more than {LONGEST_HEADERS} characters together.")
    return McpServer(url=tool.server_url, headers=headers, stateless=True)


def _check_headers(headers: Mapping[str, str], path: str) -> None:
    if len(headers) > MOST_HEADERS:
        raise refused(path, f"there are {len(headers)}; at most {MOST_HEADERS} are possible.")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _VALUE.fullmatch(value):
            raise refused(path, "a header is a name of HTTP's, and printable ASCII.")
        if name.lower() in _OURS:
            raise impossible(path, f"{name} is set by this server.")


def client_servers(tools: Sequence[ResponsesTool], servers: ClientServers) -> list[tuple[str, ResponsesTool]]:
    """The client's servers among ``tools``, with their paths. Raises `RequestError` for too many, or two of a name."""
    found = [(f"tools[{i}]", tool) for i, tool in enumerate(tools) if is_clients(tool)]
    if len(found) > servers.most:
        raise refused("tools", f"there are {len(found)} MCP servers; at most {servers.most} are possible.")
    labels: set[str | None] = set()
    for path, tool in found:
        if tool.server_label in labels:
            raise refused(f"{path}.server_label", "another server of this request has this label.")
        labels.add(tool.server_label)
    return found


def listed_before(entries: Iterable[Entry], label: str) -> tuple[ListedTool, ...] | None:
    """The tools of the server, as the last listing among ``entries`` has them; None where there is none."""
    for entry in reversed(list(entries)):
        match entry.item:
            case {"type": "mcp_list_tools", "server_label": str(of), "tools": list(tools), **rest} if of == label:
                return None if rest.get("error") else tuple(msgspec.convert(tools, ready(list[ListedTool])))
            case _:
                pass
    return None


def approved_calls(entries: Sequence[Entry], named: Mapping[str, McpName], first: int) -> list[ApprovedCall]:
    """The calls that were approved since the model's last item, and did not run yet.

    ``named`` are the recipients that are offered; ``first`` is the number of the first entry of the request itself.
    Raises `RequestError` for a call of a tool that is not offered.
    """
    calls = {entry.id: entry.messages[-1] for entry in entries if _kind(entry) == "mcp_approval_request"}
    last = max((i for i, entry in enumerate(entries) if _is_written(entry)), default=-1)
    approved = []
    for i in range(max(first, last + 1), len(entries)):
        item = entries[i].item or {}
        if _kind(entries[i]) != "mcp_approval_response" or not item["approve"]:
            continue
        request = item["approval_request_id"]
        name = named.get(calls[request].recipient or "")
        if name is None:
            path = f"input[{i - first}].approval_request_id"
            raise refused(path, "the tool of this call is not offered.", hint="Name its server in tools again.")
        approved.append(ApprovedCall(request, name, calls[request]))
    return approved


def _kind(entry: Entry) -> str:
    return str((entry.item or {}).get("type", ""))


def _is_written(entry: Entry) -> bool:
    """Whether the model wrote the item: what it was before is over."""
    item, kind = entry.item, _kind(entry)
    if item is None or kind in ("reasoning", "function_call", "custom_tool_call", "mcp_approval_request"):
        return True
    return kind.endswith("_call") or (kind == "message" and item.get("role") == "assistant")


def allowed_of(tools: Sequence[ListedTool], allowed: Sequence[str] | McpFilter | None) -> list[ListedTool]:
    """Returns the tools of a server that a filter lets through, by default all."""
    if allowed is None:
        return list(tools)
    return [tool for tool in tools if _passes(tool, allowed)]


def _passes(tool: ListedTool, filter: Sequence[str] | McpFilter) -> bool:
    if not isinstance(filter, McpFilter):
        return tool.name in filter
    if filter.tool_names is not None and tool.name not in filter.tool_names:
        return False
    return filter.read_only is None or filter.read_only == tool.only_reads


def needs_approval(tool: ListedTool, required: str | McpApproval | None) -> bool:
    """Whether each call of the tool is to be approved: yes, unless the client says that it is not."""
    if not isinstance(required, McpApproval):
        return required != "never"
    if required.always is not None and _passes(tool, required.always):
        return True
    return required.never is None or not _passes(tool, required.never)


def check_choices(tool: ResponsesTool, path: str, listed: Sequence[ListedTool]) -> None:
    """Raises `RequestError` for a name in the tool's filters that the server has no tool of."""
    names = {one.name for one in listed}
    for at, filter in _filters(tool, path):
        requested = filter.tool_names if isinstance(filter, McpFilter) else filter
        for i, name in enumerate(requested or ()):
            if name not in names:
                raise refused(f"{at}[{i}]", f"the server has no tool {name[:64]!r}.")


def _filters(tool: ResponsesTool, path: str) -> Iterable[tuple[str, Sequence[str] | McpFilter | None]]:
    inner = ".tool_names" if isinstance(tool.allowed_tools, McpFilter) else ""
    yield f"{path}.allowed_tools{inner}", tool.allowed_tools
    if isinstance(tool.require_approval, McpApproval):
        yield f"{path}.require_approval.always.tool_names", tool.require_approval.always
        yield f"{path}.require_approval.never.tool_names", tool.require_approval.never


def echo_of(tool: ResponsesTool) -> dict[str, Any]:
    """The tool as the response has it: nothing by which its server lets the client in."""
    shown = msgspec.structs.replace(tool, authorization=None, own_headers=None, server_url=_origin(tool.server_url))
    fields: dict[str, Any] = msgspec.to_builtins(shown)
    required = fields.get("require_approval") or "always"
    return {name: value for name, value in fields.items() if value is not None} | {"require_approval": required}


def _origin(url: str | None) -> str:
    """A URL without its path and its query, which may have a secret."""
    origin, _, rest = (url or "").partition("://")
    host, *more = re.split("[/?#]", rest, maxsplit=1)
    return f"{origin}://{host}" + "/<redacted>" * any(more)
