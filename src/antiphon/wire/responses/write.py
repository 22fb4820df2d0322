"""Events of a turn → events of a response. A whole answer is what the last of them carries: they cannot disagree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    End,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.errors import AntiphonError, RequestError
from antiphon.generation.rounds import RoundEvent
from antiphon.tools import ToolCancelled, ToolEnded, ToolStarted

from .ending import ENDINGS, LAST, LastStatus, message_of, response_error, response_usage
from .event_schema import (
    OutputItemDone,
    ResponseCreated,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    ResponseQueued,
    StreamError,
    StreamEvent,
)
from .item_schema import Annotation, OutputItem, Status
from .open_items import Answer, ClientFunctionCall, ClientTool, CustomCall, OpenItem, Phase, Place, Reasoning
from .schema import (
    IncompleteDetails,
    Response,
    ResponseError,
)
from .server_calls import CodeInterpreter, McpCall, ServerCall, WebSearch

PREFIXES = {
    Reasoning: "rs",
    Answer: "msg",
    ClientFunctionCall: "fc",
    CustomCall: "ctc",
    WebSearch: "ws",
    CodeInterpreter: "ci",
    McpCall: "mcp",
}


def _no_citations(text: str) -> list[Annotation]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a client may see and asked for. ``offers``: its own tools by the name that the model calls them by.

    ``served``: recipients that run on this side. ``seal`` makes ``encrypted_content`` of reasoning, where asked for.
    """

    expose_reasoning: bool = False
    seal: Callable[[Message], str] | None = None
    code_outputs: bool = False
    container_id: str = "cntr_0"
    offers: Mapping[str, ClientTool] = field(default_factory=dict)
    served: frozenset[str] = frozenset()
    cite: Callable[[str], list[Annotation]] = _no_citations


@dataclass(slots=True)
class ItemMessages:
    """One item, None where clients see none, and the messages of the conversation that it is."""

    item: OutputItem | None
    messages: list[Message]


class Projector:
    """One response: feed it what happens, send what it returns. ``clock`` gives Unix time in seconds."""

    def __init__(self, head: Response, view: View, clock: Callable[[], float]) -> None:
        self.response = head
        self._view = view
        self._clock = clock
        self._token = head.id.removeprefix("resp_")
        self._sequence = 0
        self._begun = False
        self._open: OpenItem | None = None
        self._held: tuple[OpenItem, ItemMessages] | None = None
        self._running: dict[str, tuple[ServerCall, ItemMessages]] = {}
        self._items: list[OpenItem] = []
        self._done: dict[int, OutputItem] = {}
        self.said: list[ItemMessages] = []

    @property
    def over(self) -> bool:
        return self.response.status not in ("queued", "in_progress")

    def queued(self) -> list[StreamEvent]:
        """The first events of a response that runs in the background."""
        self._begun = True
        return self._stamped([ResponseCreated(response=self.response), ResponseQueued(response=self.response)])

    def begin(self) -> list[StreamEvent]:
        """The events before anything is said."""
        self.response = replace(self.response, status="in_progress")
        told: list[StreamEvent] = [] if self._begun else [ResponseCreated(response=self.response)]
        self._begun = True
        return self._stamped([*told, ResponseInProgress(response=self.response)])

    def feed(self, event: RoundEvent) -> list[StreamEvent]:
        """What ``event`` is to the client."""
        return self._stamped([*self._release(event), *self._feed(event)])

    def fail(self, error: AntiphonError) -> list[StreamEvent]:
        """The error, and the end: every stream that breaks says so with both."""
        begun = [] if self._begun else self.begin()
        param = error.param if isinstance(error, RequestError) else None
        told = [*self._leave_open(), StreamError(code=error.code, message=message_of(error), param=param)]
        self._end("failed", error=response_error(error))
        return begun + self._stamped([*told, ResponseFailed(response=self.response)])

    def cancel(self) -> list[StreamEvent]:
        """The end of a response that its client cancelled: what was said so far, and the status."""
        begun = [] if self._begun else self.begin()
        told = self._leave_open()
        self._end("cancelled")
        return begun + self._stamped([*told, ResponseIncomplete(response=self.response)])

    def _stamped(self, events: list[StreamEvent]) -> list[StreamEvent]:
        for event in events:
            event.sequence_number = self._sequence
            self._sequence += 1
        return events

    def _feed(self, event: RoundEvent) -> list[StreamEvent]:
        match event:
            case TextDelta(text, logprobs):
                return self._open.say(text, logprobs) if self._open and text else []
            case MessageStarted(message):
                self._open = self._item(message)
                return self._open.begin() if self._open else []
            case MessageEnded(message):
                return self._ended(message)
            case ToolStarted(call):
                return self._running[call.call_id][0].running() if call.call_id in self._running else []
            case ToolEnded(result):
                return self._answered(result.call.call_id, event)
            case TurnEnded(reason, usage):
                return self._turn_ended(reason, usage)
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
            return self._new(lambda place: Answer(place, _phase(message), cite=view.cite), Answer)
        if message.channel == Channel.ANALYSIS:
            return self._new(
                lambda place: Reasoning(place, exposed=view.expose_reasoning, seal=view.seal),
                Reasoning,
            )
        return None

    def _call(self, message: Message, recipient: str) -> OpenItem:
        view, call_id = self._view, message.call_id or ""
        namespace, _, function = recipient.rpartition(".")
        name = recipient.removeprefix(f"{FUNCTIONS}.")
        if recipient not in view.served:
            offer = view.offers.get(name, ClientTool(name))
            kind = CustomCall if offer.custom else ClientFunctionCall
            return self._new(lambda place: kind(place, call_id, offer), kind)
        label, _, tool = name.partition("__")
        if namespace == "browser" or label == "browser":
            return self._new(lambda place: WebSearch(place, tool or function), WebSearch)
        if label == "python":
            return self._new(
                lambda place: CodeInterpreter(
                    place, view.container_id, outputs=view.code_outputs, wrapped=name != recipient
                ),
                CodeInterpreter,
            )
        if not tool:
            label, tool = FUNCTIONS, name
        return self._new(lambda place: McpCall(place, label, tool), McpCall)

    def _new(self, make: Callable[[Place], OpenItem], kind: type[OpenItem]) -> OpenItem:
        index = len(self._items)
        item = make(Place(f"{PREFIXES[kind]}_{self._token}{index:04x}", index))
        self._items.append(item)
        return item

    def _ended(self, message: Message) -> list[StreamEvent]:
        """A message that nothing ended is judged by what comes next: cut off, or just at its end."""
        item, self._open = self._open, None
        said = ItemMessages(None, [message])
        self.said.append(said)
        if item is None:
            return []
        if message.end is End.NONE and not message.is_call:
            self._held = item, said
            return []
        return self._close(item, said, "incomplete" if message.end is End.NONE else "completed")

    def _release(self, event: RoundEvent) -> list[StreamEvent]:
        if self._held is None:
            return []
        (item, said), self._held = self._held, None
        cut = isinstance(event, TurnEnded) and ENDINGS[event.reason].status != "completed"
        return self._close(item, said, "incomplete" if cut else "completed")

    def _close(self, item: OpenItem, said: ItemMessages, status: Status) -> list[StreamEvent]:
        (message,) = said.messages
        events = self._noted(item.end(message, status), said)
        if isinstance(item, WebSearch | CodeInterpreter | McpCall):
            self._running[message.call_id or ""] = item, said
        return events

    def _answered(self, call_id: str, event: ToolEnded) -> list[StreamEvent]:
        if call_id not in self._running:
            return []
        item, said = self._running.pop(call_id)
        said.messages.append(event.result.message())
        return self._noted(item.answered(event.result), said)

    def _noted(self, events: list[StreamEvent], said: ItemMessages | None) -> list[StreamEvent]:
        """Items that are done, kept under their index."""
        for event in events:
            if isinstance(event, OutputItemDone):
                self._done[event.output_index] = event.item
                if said is not None:
                    said.item = event.item
        return events

    def _turn_ended(self, reason: FinishReason, usage: Usage) -> list[StreamEvent]:
        told = self._leave_open()
        ending = ENDINGS[reason]
        self._end(ending.status, usage=usage, details=ending.details, error=ending.error)
        return [*told, LAST[ending.status](response=self.response)]

    def _leave_open(self) -> list[StreamEvent]:
        """What was begun and never ended is done too, as incomplete."""
        left = [item for item in self._items if item.place.index not in self._done]
        said = {id(item): said for item, said in self._running.values()}
        told: list[StreamEvent] = []
        for item in left:
            done = OutputItemDone(output_index=item.place.index, item=item.whole("incomplete"))
            told += self._noted([done], said.get(id(item)))
        self._running.clear()
        self._open = self._held = None
        return told

    def _end(
        self,
        status: LastStatus,
        *,
        usage: Usage | None = None,
        details: IncompleteDetails | None = None,
        error: ResponseError | None = None,
    ) -> None:
        self.response = replace(
            self.response,
            status=status,
            completed_at=int(self._clock()) if status == "completed" else None,
            output=[self._done[index] for index in sorted(self._done)],
            usage=None if usage is None else response_usage(usage),
            incomplete_details=details,
            error=error,
        )


def _phase(message: Message) -> Phase:
    return "commentary" if message.is_preamble else "final_answer"
