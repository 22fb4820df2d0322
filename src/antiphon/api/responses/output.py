"""Events of a turn → events of the output items of a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    visible_to_user,
)
from antiphon.generation.resume.tape import ReplayLog
from antiphon.generation.rounds import RoundEvent
from antiphon.tools import ToolCancelled, ToolEnded, ToolStarted
from antiphon.wire.definitions import built_in
from antiphon.wire.encrypted import SEPARATOR

from .event_schema import ENDINGS, OutputItemDone, StreamEvent
from .item_schema import Annotation, OutputItem, Status
from .mcp_tools import ApprovedCall, Listing, McpName, OpenApprovalRequest, OpenListing
from .open_items import (
    ClientTool,
    OpenCompaction,
    OpenCustomCall,
    OpenFunctionCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    OpenTypedCall,
    Phase,
    Place,
)
from .server_calls import OpenCodeInterpreter, OpenMcpCall, OpenServerCall, OpenWebSearch

PREFIXES: Mapping[type[OpenItem], str] = {
    OpenReasoning: "rs",
    OpenMessage: "msg",
    OpenFunctionCall: "fc",
    OpenCustomCall: "ctc",
    OpenTypedCall: "tc",
    OpenWebSearch: "ws",
    OpenCodeInterpreter: "ci",
    OpenMcpCall: "mcp",
    OpenListing: "mcpl",
    OpenApprovalRequest: "mcpr",
    OpenCompaction: "cmp",
}
"""How the ids of items begin."""
CALLS: Mapping[str, type[OpenFunctionCall | OpenCustomCall]] = {"function": OpenFunctionCall, "custom": OpenCustomCall}
"""Calls of the client's tools, by their kinds; of others they are `OpenTypedCall`."""
Made = TypeVar("Made", bound=OpenItem)


class ResponseView(msgspec.Struct, frozen=True, kw_only=True):
    """The client's view and requests. ``offers``: its own tools by the name that the model calls them by.

    ``served``: recipients that the server runs; ``gated``: those that run when the client approves each call.
    ``named``: how recipients of the client's MCP servers are called there.
    ``encrypt`` makes ``encrypted_content`` of reasoning and of calls,
    where requested.
    ``cite`` finds the pages that a text names.
    """

    expose_reasoning: bool = False
    encrypt: Callable[[Message], str] | None = None
    code_outputs: bool = False
    search_sources: bool = False
    container_id: str = "cntr_0"
    offers: Mapping[str, ClientTool] = msgspec.field(default_factory=dict)
    served: frozenset[str] = frozenset()
    gated: frozenset[str] = frozenset()
    named: Mapping[str, McpName] = msgspec.field(default_factory=dict)
    cite: Callable[[str], list[Annotation]] = lambda text: []

    def replayed(self, log: ReplayLog) -> ResponseView:
        """The view whose texts that are another each time are in the log."""
        encrypt, cite = self.encrypt, self.cite
        return replace(
            self,
            encrypt=None if encrypt is None else lambda message: log.replay_value(lambda: encrypt(message), str),
            cite=lambda text: log.replay_value(lambda: cite(text), list[Annotation]),
        )


@dataclass(slots=True)
class ItemMessages:
    """One item, None where clients see none, and the messages of the conversation that it is."""

    item: OutputItem | None
    messages: list[Message]


class Output:
    """The output of one response. ``token`` makes the ids of its items.

    ``entries`` are all messages of its turns so far, with the item that each became.
    """

    def __init__(self, token: str, view: ResponseView) -> None:
        self.entries: list[ItemMessages] = []
        self._token = token
        self._view = view
        self._open: OpenItem | None = None
        self._undecided: tuple[OpenItem, ItemMessages] | None = None
        self._running: dict[str, tuple[OpenServerCall, ItemMessages]] = {}
        self._items: list[OpenItem] = []
        self._done: dict[int, OutputItem] = {}

    @property
    def items(self) -> list[OutputItem]:
        """Returns the items that are done, in the order in which they began."""
        return [self._done[index] for index in sorted(self._done)]

    def feed(self, event: RoundEvent) -> list[StreamEvent]:
        """Returns the client's events for ``event``, which also ends an item whose message nothing ended."""
        if self._undecided is None:
            return self._feed(event)
        (item, entry), self._undecided = self._undecided, None
        cut = isinstance(event, TurnEnded) and ENDINGS[event.reason].status != "completed"
        return [*self._end(item, entry, "incomplete" if cut else "completed"), *self._feed(event)]

    def compacted(self, message: Message, encrypted: str) -> list[StreamEvent]:
        """The first item: the summary, with which the model went on in place of what was before."""
        item = self._new(lambda place: OpenCompaction(place, encrypted), OpenCompaction)
        entry = ItemMessages(None, [message])
        self.entries.append(entry)
        return [*item.begin(), *self._noted(item.end(message, "completed"), entry)]

    def listed(self, listing: Listing) -> list[StreamEvent]:
        """Lists the tools that a server of the client's offers."""
        item = self._new(lambda place: OpenListing(place, listing), OpenListing)
        entry = ItemMessages(None, [])
        self.entries.append(entry)
        return [*item.begin(), *self._noted(item.listed(), entry)]

    def approved(self, call: ApprovedCall) -> list[StreamEvent]:
        """A call of an earlier response, which runs now; its message is in the conversation already."""
        named, text = call.named, str(call.message.text)
        item = self._new(lambda place: OpenMcpCall(place, named.server_label, named.name, call.request_id), OpenMcpCall)
        entry = ItemMessages(None, [])
        self.entries.append(entry)
        self._running[call.message.call_id or ""] = item, entry
        return [*item.begin(), *item.add(text, ()), *item.end(call.message, "in_progress")]

    def close(self) -> list[StreamEvent]:
        """Ends the items that never ended, as incomplete."""
        entries = {id(item): entry for item, entry in self._running.values()}
        events: list[StreamEvent] = []
        for item in self._items:
            if item.place.index not in self._done:
                done = OutputItemDone(output_index=item.place.index, item=item.item("incomplete"))
                events += self._noted([done], entries.get(id(item)))
        self._running.clear()
        self._open = self._undecided = None
        return events

    def _feed(self, event: RoundEvent) -> list[StreamEvent]:
        match event:
            case TextDelta(text, logprobs):
                return self._open.add(text, logprobs) if self._open and text else []
            case MessageStarted(message):
                self._open = self._item(message)
                return self._open.begin() if self._open else []
            case MessageEnded(message):
                return self._message_ended(message)
            case ToolStarted(call):
                return self._running[call.call_id][0].running() if call.call_id in self._running else []
            case ToolEnded(result):
                return self._answered(result.call.call_id, event)
            case TurnEnded():
                return self.close()
            case ToolCancelled() | Incident():
                return []
            case _:
                assert_never(event)

    def _item(self, message: Message) -> OpenItem | None:
        """The item that a message becomes; None for what clients do not see."""
        view = self._view
        if message.is_call:
            return self._call(message, message.recipient or "")
        if visible_to_user(message):
            phase: Phase = "commentary" if message.is_preamble else "final_answer"
            return self._new(lambda place: OpenMessage(place, phase, cite=view.cite), OpenMessage)
        if message.channel == Channel.ANALYSIS:
            return self._new(
                lambda place: OpenReasoning(place, exposed=view.expose_reasoning, encrypt=view.encrypt),
                OpenReasoning,
            )
        return None

    def _call(self, message: Message, recipient: str) -> OpenItem:
        named = self._view.named.get(recipient)
        if recipient in self._view.gated and named is not None:
            return self._new(lambda place: OpenApprovalRequest(place, named), OpenApprovalRequest)
        name = recipient.removeprefix(f"{FUNCTIONS}.")
        offer = self._view.offers.get(name, ClientTool(name))
        runs = self._view.served or self._view.gated
        if recipient in self._view.served or (runs and name not in self._view.offers):
            return self._server_call(recipient, named)
        kind = CALLS.get(offer.kind, OpenTypedCall)
        encrypt = self._view.encrypt
        return self._new(lambda place: kind(place, message.call_id or "", offer, encrypt), kind)

    def _server_call(self, recipient: str, named: McpName | None) -> OpenItem:
        view, tool = self._view, built_in(recipient) if recipient in self._view.served else None
        if named is not None:
            return self._new(lambda place: OpenMcpCall(place, named.server_label, named.name), OpenMcpCall)
        if tool is None:
            name = recipient.removeprefix(f"{FUNCTIONS}.")
            label, _, function = name.partition("__") if "__" in name else (FUNCTIONS, "", name)
            return self._new(lambda place: OpenMcpCall(place, label, function), OpenMcpCall)
        if tool.name == "browser":
            return self._new(
                lambda place: OpenWebSearch(place, tool.function, sources=view.search_sources), OpenWebSearch
            )
        return self._new(
            lambda place: OpenCodeInterpreter(
                place, view.container_id, outputs=view.code_outputs, wrapped=tool.wrapped
            ),
            OpenCodeInterpreter,
        )

    def _new(self, make: Callable[[Place], Made], kind: type[Made]) -> Made:
        index = len(self._items)
        item = make(Place(f"{PREFIXES[kind]}_{self._token}{index:04x}", index))
        self._items.append(item)
        return item

    def _message_ended(self, message: Message) -> list[StreamEvent]:
        """A message that nothing ended is judged by what comes next: cut off, or just at its end."""
        item, self._open = self._open, None
        entry = ItemMessages(None, [message])
        self.entries.append(entry)
        if item is None:
            return []
        if message.end is End.NONE and not message.is_call:
            self._undecided = item, entry
            return []
        return self._end(item, entry, "incomplete" if message.end is End.NONE else "completed")

    def _end(self, item: OpenItem, entry: ItemMessages, status: Status) -> list[StreamEvent]:
        (message,) = entry.messages
        events = self._noted(item.end(message, status), entry)
        if isinstance(item, OpenWebSearch | OpenCodeInterpreter | OpenMcpCall):
            self._running[message.call_id or ""] = item, entry
        return events

    def _answered(self, call_id: str, event: ToolEnded) -> list[StreamEvent]:
        if call_id not in self._running:
            return []
        item, entry = self._running.pop(call_id)
        entry.messages.append(event.result.message())
        events = item.answered(event.result)
        if self._view.encrypt is not None:
            encrypted = SEPARATOR.join(map(self._view.encrypt, entry.messages))
            for done in events:
                if isinstance(done, OutputItemDone):
                    done.item = replace(done.item, encrypted_content=encrypted)
        return self._noted(events, entry)

    def _noted(self, events: list[StreamEvent], entry: ItemMessages | None) -> list[StreamEvent]:
        """The events; items that are done by them are noted under their index."""
        for event in events:
            if isinstance(event, OutputItemDone):
                self._done[event.output_index] = event.item
                if entry is not None:
                    entry.item = event.item
        return events
