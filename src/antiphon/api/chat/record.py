"""Records the answer to a chat request that is to be stored."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.conversation import Event, Message
from antiphon.generation import StepEvents
from antiphon.http.post import Post
from antiphon.wire.json import encode
from antiphon.wire.metadata import check_metadata
from antiphon.wire.writer import JSON

from .archive import CompletionArchive, StoredHead
from .schema import ChatRequest
from .stored import metadata_of, stored_messages
from .write import AnswerHead, ChatShape, ChatWriter


def check_stored(wire: ChatRequest) -> None:
    """Raises `RequestError` for pairs that cannot be stored, where the completion is to be."""
    if wire.store:
        check_metadata(metadata_of(wire))


class CompletionRecord:
    """The `Writer` of an answer that is stored: what is streamed is collected too, so that both are the same."""

    media_type = JSON

    def __init__(self, post: Post, wire: ChatRequest, head: AnswerHead, shape: ChatShape) -> None:
        self.form = post.form
        self._post = post
        self._wire = wire
        self._head = head
        self._stream = ChatWriter(head, shape, post.form)
        self._whole = ChatWriter(head, shape, post.form)

    def change(self, step: StepEvents[Event]) -> bytes:
        self._whole.add(step)
        return self._stream.change(step)

    def end(self) -> bytes:
        return self._stream.end()

    def add(self, step: StepEvents[Event]) -> None:
        self._whole.add(step)

    def whole(self) -> bytes:
        return self._whole.whole()

    async def keep(self, messages: Sequence[Message]) -> None:
        """Stores the completion once all its choices ended. Where it cannot be, the error is the answer's."""
        if not self._whole.over:
            return
        post, wire, id = self._post, self._wire, self._head.id
        head = StoredHead((self._head.model, *filter(None, [wire.model])), metadata_of(wire))
        answer = await post.off_loop(self.whole)
        stored = await post.off_loop(lambda: encode(stored_messages(id, wire.messages)))
        await CompletionArchive(post.context.archive).put(post.exchange.owner, id, head, answer, stored)
