"""One output item each, from its first event to its last (the order of every kind is the API's)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, Protocol

import msgspec

from antiphon.api.chat.write import logprob_entries
from antiphon.conversation import Message, TokenLogprob
from antiphon.structs import ready
from antiphon.tokens import utf8
from antiphon.wire.projection import custom_input

from .event_schema import (
    ContentPartAdded,
    ContentPartDone,
    CustomToolCallInputDelta,
    CustomToolCallInputDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    StreamEvent,
)
from .item_schema import (
    TYPED,
    Action,
    Annotation,
    ApplyPatchCallItem,
    CompactionItem,
    CustomToolCallItem,
    FunctionCallItem,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
    TypedCallItem,
)

Encrypt = Callable[[Message], str]
"""Makes ``encrypted_content`` of a message."""
Phase = Literal["commentary", "final_answer"]


class ClientTool(msgspec.Struct, frozen=True):
    """A tool of the client's, as it named it: a ``function``, a ``custom`` tool, or one of the types of `TYPED`.

    ``grammar_at`` is where a custom tool's grammar is in the request.
    """

    name: str
    namespace: str | None = None
    kind: str = "function"
    grammar_at: str = ""


class Place(msgspec.Struct, frozen=True):
    """An item's place: its id, and its index among the response's items."""

    id: str
    index: int

    @property
    def at(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index}


class OpenItem(Protocol):
    """An item that is being written: each step gives the events that it is to the client.

    ``item`` is the item as it stands, under the status that is given.
    """

    place: Place

    def begin(self) -> list[StreamEvent]: ...

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]: ...

    def end(self, message: Message, status: Status) -> list[StreamEvent]: ...

    def item(self, status: Status) -> OutputItem: ...


class OpenReasoning:
    """Reasoning: its text where it is exposed, ``encrypted_content`` where requested, else only that there was some."""

    def __init__(self, place: Place, *, exposed: bool, encrypt: Encrypt | None) -> None:
        self.place = place
        self._exposed = exposed
        self._encrypt = encrypt
        self._encrypted: str | msgspec.UnsetType = msgspec.UNSET
        self._text: list[str] = []

    def begin(self) -> list[StreamEvent]:
        if not self._exposed:
            return [item_added(self)]
        return [item_added(self), ContentPartAdded(**self.place.at, part=ReasoningText(""))]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        if not self._exposed:
            return []
        self._text.append(text)
        return [ReasoningTextDelta(**self.place.at, delta=text)]

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        self._encrypted = self._encrypt(message) if self._encrypt else msgspec.UNSET
        ended = item_done(self, status)
        if not self._exposed:
            return [ended]
        text = "".join(self._text)
        return [
            ReasoningTextDone(**self.place.at, text=text),
            ContentPartDone(**self.place.at, part=ReasoningText(text)),
            ended,
        ]

    def item(self, status: Status) -> ReasoningItem:
        visible = self._exposed and status != "in_progress"
        content = [ReasoningText("".join(self._text))] if visible else []
        return ReasoningItem(id=self.place.id, content=content, encrypted_content=self._encrypted, status=status)


class OpenMessage:
    """A message to the user: the answer, or a preamble before a call. ``cite`` finds the pages that a text names."""

    def __init__(self, place: Place, phase: Phase, *, cite: Callable[[str], list[Annotation]]) -> None:
        self.place = place
        self._phase: Phase = phase
        self._cite = cite
        self._annotations: list[Annotation] = []
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []

    def begin(self) -> list[StreamEvent]:
        return [item_added(self), ContentPartAdded(**self.place.at, part=OutputText(text=""))]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        self._text.append(text)
        self._logprobs += logprobs
        entries = logprob_entries(logprobs) if logprobs else []
        return [OutputTextDelta(**self.place.at, delta=text, logprobs=entries)]

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        self._annotations = self._cite("".join(self._text))
        part = self._part()
        events: list[StreamEvent] = [
            OutputTextAnnotationAdded(**self.place.at, annotation_index=i, annotation=annotation)
            for i, annotation in enumerate(self._annotations)
        ]
        events += [
            OutputTextDone(**self.place.at, text=part.text, logprobs=part.logprobs),
            ContentPartDone(**self.place.at, part=part),
            item_done(self, status),
        ]
        return events

    def item(self, status: Status) -> MessageItem:
        content = [] if status == "in_progress" else [self._part()]
        return MessageItem(id=self.place.id, status=status, content=content, phase=self._phase)

    def _part(self) -> OutputText:
        return OutputText(
            text="".join(self._text), annotations=self._annotations, logprobs=logprob_entries(self._logprobs)
        )


class OpenFunctionCall:
    """A call of a function of the client's; the arguments are the model's text, byte for byte."""

    def __init__(self, place: Place, call_id: str, offer: ClientTool, encrypt: Encrypt | None) -> None:
        self.place = place
        self._call_id = call_id
        self._offer = offer
        self._encrypt = encrypt
        self._encrypted: str | msgspec.UnsetType = msgspec.UNSET
        self._arguments: list[str] = []

    def begin(self) -> list[StreamEvent]:
        return [item_added(self)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        self._arguments.append(text)
        return [FunctionCallArgumentsDelta(**self.place.at, delta=text)]

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        arguments = "".join(self._arguments)
        self._encrypted = self._encrypt(message) if self._encrypt else msgspec.UNSET
        return [
            FunctionCallArgumentsDone(**self.place.at, name=self._offer.name, arguments=arguments),
            item_done(self, status),
        ]

    def item(self, status: Status) -> FunctionCallItem:
        return FunctionCallItem(
            id=self.place.id,
            call_id=self._call_id,
            name=self._offer.name,
            namespace=self._offer.namespace or msgspec.UNSET,
            arguments="".join(self._arguments),
            encrypted_content=self._encrypted,
            status=status,
        )


class OpenCustomCall:
    """A call of the client's custom tool. Its free text comes wrapped in JSON, so it is sent when it is whole."""

    def __init__(self, place: Place, call_id: str, offer: ClientTool, encrypt: Encrypt | None) -> None:
        self.place = place
        self._call_id = call_id
        self._offer = offer
        self._encrypt = encrypt
        self._encrypted: str | msgspec.UnsetType = msgspec.UNSET
        self._input = ""

    def begin(self) -> list[StreamEvent]:
        return [item_added(self)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        return []

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        self._input = custom_input(message.text)
        self._encrypted = self._encrypt(message) if self._encrypt else msgspec.UNSET
        events: list[StreamEvent] = [CustomToolCallInputDone(**self.place.at, input=self._input)]
        if self._input:
            events.insert(0, CustomToolCallInputDelta(**self.place.at, delta=self._input))
        return [*events, item_done(self, status)]

    def item(self, status: Status) -> CustomToolCallItem:
        return CustomToolCallItem(
            id=self.place.id,
            call_id=self._call_id,
            name=self._offer.name,
            namespace=self._offer.namespace or msgspec.UNSET,
            input=self._input,
            encrypted_content=self._encrypted,
            status=status,
        )


class OpenTypedCall:
    """A call of a tool that the client gave by its type. It is sent when it is whole; one that is cut does nothing."""

    def __init__(self, place: Place, call_id: str, offer: ClientTool, encrypt: Encrypt | None) -> None:
        self.place = place
        self._call_id = call_id
        self._kind = TYPED[offer.name]
        self._encrypt = encrypt
        self._encrypted: str | msgspec.UnsetType = msgspec.UNSET
        self._action: Action = self._kind.nothing
        self._whole = False

    def begin(self) -> list[StreamEvent]:
        return [item_added(self)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        return []

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        with suppress(msgspec.DecodeError, RecursionError):
            self._action = msgspec.json.decode(utf8(message.text), type=ready(self._kind.action))
            self._whole = True
        self._encrypted = self._encrypt(message) if self._encrypt else msgspec.UNSET
        return [item_done(self, status)]

    def item(self, status: Status) -> TypedCallItem:
        if status == "completed" and not self._whole:
            status = "incomplete"
        if status == "incomplete" and self._kind.item is ApplyPatchCallItem:
            status = "in_progress"  # This item has no other word for it.
        return self._kind.item(
            id=self.place.id,
            call_id=self._call_id,
            action=self._action,
            encrypted_content=self._encrypted,
            status=status,
        )


class OpenCompaction:
    """The summary of what was before, which is whole when it begins."""

    def __init__(self, place: Place, encrypted: str) -> None:
        self.place = place
        self._encrypted = encrypted

    def begin(self) -> list[StreamEvent]:
        return [item_added(self)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        return []

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        return [item_done(self, status)]

    def item(self, status: Status) -> CompactionItem:
        return CompactionItem(id=self.place.id, encrypted_content=self._encrypted)


def item_added(item: OpenItem) -> OutputItemAdded:
    return OutputItemAdded(output_index=item.place.index, item=item.item("in_progress"))


def item_done(item: OpenItem, status: Status) -> OutputItemDone:
    return OutputItemDone(output_index=item.place.index, item=item.item(status))
