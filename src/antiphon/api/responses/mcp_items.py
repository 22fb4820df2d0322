"""Output items of MCP servers that a client named: what they offer, and calls that its user is to approve."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from antiphon.conversation import Message, TokenLogprob
from antiphon.tools.mcp import ListedTool

from .event_schema import McpListToolsCompleted, McpListToolsFailed, McpListToolsInProgress, StreamEvent
from .item_schema import McpApprovalRequestItem, McpListToolsItem, Status
from .open_items import Place, item_added, item_done


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
