"""Steps of a turn → the events of a response. A whole answer is what the last of them carries: they cannot disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from antiphon.conversation import TurnEnded, Usage
from antiphon.errors import AntiphonError, RequestError
from antiphon.generation import StepEvents
from antiphon.generation.rounds import RoundEvent, sum_of
from antiphon.wire.json import encode
from antiphon.wire.writer import DONE, JSON, StreamForm, event_bytes, with_id

from .compaction import Compaction
from .event_schema import (
    ENDINGS,
    LAST,
    Ending,
    ResponseCancelled,
    ResponseCreated,
    ResponseFailed,
    ResponseInProgress,
    ResponseQueued,
    StreamError,
    StreamEvent,
    message_of,
    response_error,
    response_usage,
)
from .mcp_tools import ApprovedCall, Listing
from .output import ItemMessages, Output, ResponseView
from .schema import Response


class ResponseWriter:
    """One response, in the form that `Writer` describes. ``clock`` gives Unix time in seconds.

    ``response`` is the response so far, and ``completion_tokens`` count what was sampled for it, with what the client
    does not see. `queued`, `events` and `fail` give its events as values, for those who
    follow it from another request; `change` and `form` give the same events as bytes.
    """

    media_type = JSON

    def __init__(
        self,
        head: Response,
        view: ResponseView,
        clock: Callable[[], float],
        compaction: Compaction | None = None,
        *,
        listings: Sequence[Listing] = (),
        approved: Sequence[ApprovedCall] = (),
    ) -> None:
        self.response = head
        self.completion_tokens: int = 0
        self._listings = listings
        self._approved = approved
        self._output = Output(head.id.removeprefix("resp_"), view)
        self._clock = clock
        self._compaction = compaction
        self._sequence = 0
        self._created = self._begun = False
        self._returns_ids = head.prompt_token_ids is not UNSET
        self._ids: list[int] = []
        self._sent = 0
        self._before_end = head
        self._step: list[StreamEvent] = []
        self._unsent: list[StreamEvent] = []

    @property
    def over(self) -> bool:
        return self.response.status not in ("queued", "in_progress")

    @property
    def latest(self) -> list[StreamEvent]:
        """Returns the events of the last `events` or `fail`."""
        return self._step

    @property
    def entries(self) -> list[ItemMessages]:
        """The messages of its turns so far, with the item that each became."""
        return self._output.entries

    @property
    def form(self) -> StreamForm:
        return StreamForm(lambda error: events_bytes(self.fail(error)) + DONE)

    def change(self, step: StepEvents[RoundEvent]) -> bytes:
        """The events of one step; the first step's begin with those of the response's beginning."""
        return events_bytes(self.events(step))

    def end(self) -> bytes:
        return DONE

    def add(self, step: StepEvents[RoundEvent]) -> None:
        self.events(step)

    def whole(self) -> bytes:
        return encode(self.response)

    def queued(self) -> list[StreamEvent]:
        """The first events of a response that runs in the background."""
        return self._stamped([*self._create(), ResponseQueued(response=self.response)])

    def admitted(self) -> list[StreamEvent]:
        """Returns the events behind `queued` when it is the response's turn, before the engine's first."""
        return self._stamped(self._begin())

    def events(self, step: StepEvents[RoundEvent]) -> list[StreamEvent]:
        """Returns the client's events for one step."""
        events = [] if self._begun else self._begin()
        before = len(events)
        self.completion_tokens = step.completion_tokens
        self._ids += step.ids
        for event in step.events:
            events += self._output.feed(event)
            if isinstance(event, TurnEnded):
                self._before_end = self.response
                events += self._finish(ENDINGS[event.reason], event.usage)
        if self._returns_ids and len(events) > before:
            events[before].token_ids = self._ids[self._sent :]
            self._sent = len(self._ids)
        self._step = self._stamped(events)
        return self._step

    def withdraw(self) -> None:
        """Take the end back that `events` gave last and that nobody got, because it could not be stored.

        What came before it in the same step is sent with the error that `fail` is given next.
        """
        if self.over:
            self.response = self._before_end
            *self._unsent, last = self._step
            self._sequence = last.sequence_number

    def fail(self, error: AntiphonError) -> list[StreamEvent]:
        """The last events of a response that broke, or that its client cancelled; none where it is over already.

        A cancelled one ends with its status alone, any other with the error too.
        """
        if self.over:
            return []
        unsent, self._unsent = self._unsent, []
        events = [] if self._created else self._begin()
        events += self._output.close()
        if isinstance(error, ResponseCancelled):
            events += self._finish(Ending("cancelled"))
        else:
            param = error.param if isinstance(error, RequestError) else None
            events.append(StreamError(code=error.code, message=message_of(error), param=param))
            events += self._finish(Ending("failed", error=response_error(error)))
        self._step = [*unsent, *self._stamped(events)]
        return self._step

    def _create(self) -> list[StreamEvent]:
        created, self._created = self._created, True
        return [] if created else [ResponseCreated(response=self.response)]

    def _begin(self) -> list[StreamEvent]:
        """The events before the model's first item."""
        self._begun = True
        self.response = replace(self.response, status="in_progress")
        events = [*self._create(), ResponseInProgress(response=self.response)]
        if (done := self._compaction) is not None:
            events += self._output.compacted(done.summary.message, done.encrypted)
        for listing in self._listings:
            events += self._output.listed(listing)
        for call in self._approved:
            events += self._output.approved(call)
        return events

    def _finish(self, ending: Ending, usage: Usage | None = None) -> list[StreamEvent]:
        if usage is not None and self._compaction is not None:
            usage = sum_of(self._compaction.summary.usage, usage)
        self.response = replace(
            self.response,
            status=ending.status,
            completed_at=int(self._clock()) if ending.status == "completed" else None,
            output=self._output.items,
            usage=None if usage is None else response_usage(usage),
            incomplete_details=ending.details,
            error=ending.error,
            token_ids=self._ids if self._returns_ids else UNSET,
        )
        return [LAST[ending.status](response=self.response)]

    def _stamped(self, events: list[StreamEvent]) -> list[StreamEvent]:
        for event in events:
            event.sequence_number = self._sequence
            self._sequence += 1
        return events


def failed_events(response: Response, error: AntiphonError, number: int) -> list[StreamEvent]:
    """The last events, from ``number`` on, of a response of which nothing more is known than that it cannot go on."""
    failed = replace(response, status="failed", error=response_error(error))
    param = error.param if isinstance(error, RequestError) else None
    return [
        StreamError(code=error.code, message=message_of(error), param=param, sequence_number=number),
        ResponseFailed(response=failed, sequence_number=number + 1),
    ]


def events_bytes(events: list[StreamEvent]) -> bytes:
    return b"".join(map(event_bytes, events))


def numbered_bytes(event: StreamEvent) -> bytes:
    """The same with its number as its id, which a browser that connects again sends as ``last-event-id``."""
    return with_id(event.sequence_number, event_bytes(event))


def error_bytes(error: AntiphonError, number: int = -1) -> bytes:
    """The last event of a stream that ends here, and not the response: ``number`` is that of the event before it.

    So a client that goes on after it elsewhere misses nothing.
    """
    param = error.param if isinstance(error, RequestError) else None
    return event_bytes(StreamError(code=error.code, message=message_of(error), param=param, sequence_number=number))
