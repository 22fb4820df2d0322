"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from antiphon.api.reading import server_tools, turn_memory
from antiphon.conversation import Event, Message
from antiphon.generation import Draft, StepEvents
from antiphon.generation.turn import in_order
from antiphon.generation.unfinished import TurnMemory
from antiphon.http.context import day_of
from antiphon.http.post import Post, PostRoute
from antiphon.http.session import SessionTurn, session_turn
from antiphon.wire.dialect import check_metadata, session_name
from antiphon.wire.json import encode
from antiphon.wire.prompt_notes import notes_of
from antiphon.wire.writer import JSON, Writer

from .archive import CompletionArchive, StoredHead, completion_id, metadata_of, stored_messages
from .messages import place_of
from .read import Reading, check_begins, to_turn
from .schema import ChatRequest
from .write import AnswerHead, ChatShape, ChatWriter, Opening

# Records the answer to a chat request that is to be stored.


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


class ChatCompletions(PostRoute):
    """Goes on with a conversation, or with a session's; the completion is stored where the request has ``store``."""

    async def answer(self, post: Post) -> None:
        context = self._context
        wire = await post.read(ChatRequest)
        check_begins(wire)
        check_stored(wire)
        stream = post.streams(wire.stream)
        model = await post.model(wire.model)
        began = post.created_at
        id = post.answer_id(completion_id(began))
        async with AsyncExitStack() as stack:
            session = await self._session(wire, post.exchange.owner, stack)
            tenant = post.tenant.asking(affinity=session.affinity if session else None)
            earlier = session.history if session else ()
            tools = server_tools(context, wire, model.format, session=id)
            offer = tools.offer if tools else None
            memory = None if session else turn_memory(context, post.exchange, model, post.off_loop)
            reading = Reading(context.dialect, context.limits, day_of(began), tenant, earlier, stream, offer)
            more = (session.size if session else 0) + (context.limits.off_loop_above if wire.explain_prefix else 0)
            most = reading.dialect.prompt_limit(model.context)
            draft = await post.plan(model, lambda: to_turn(wire, reading), memory=memory, most=most, more=more)
            taken = draft.request.conversation.settings.template_kwargs
            post.ignore(f"chat_template_kwargs.{key}" for key in wire.chat_template_kwargs or {} if key not in taken)
            head, shape = _head(wire, draft, reading, memory, id=id, created=began), _shape(wire, draft, post)
            record = CompletionRecord(post, wire, head, shape) if wire.store else None
            writer: Writer[Event] = record or ChatWriter(head, shape, post.form)
            remembers = memory.keeper(draft.request, tools) if memory else None
            keep = in_order(remembers, record.keep if record else None)
            await post.answer([draft], writer, session=session, tools=tools, keep=keep, id=id, began=began)

    async def _session(self, wire: ChatRequest, owner: str, stack: AsyncExitStack) -> SessionTurn | None:
        """The session that the request names, which no other request has meanwhile."""
        name = session_name(wire.session_id)
        if name is None:
            return None
        turn = session_turn(
            self._context.sessions, name, owner=owner, start=wire.sequence_start, ends=bool(wire.sequence_end)
        )
        return await stack.enter_async_context(turn)


def _head(
    wire: ChatRequest, draft: Draft, reading: Reading, memory: TurnMemory | None, *, id: str, created: float
) -> AnswerHead:
    options = wire.stream_options
    return AnswerHead(
        id=id,
        created=int(created),
        model=draft.model.name,
        dialect=reading.dialect,
        usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        opening=_opening(wire, draft, reading, memory),
    )


def _opening(wire: ChatRequest, draft: Draft, reading: Reading, memory: TurnMemory | None) -> Opening:
    lost, message = draft.prefix.lost if draft.prefix else None, None
    if lost is not None and lost.message is not None:
        frame = memory.place_as_sent(lost.message) if memory else lost.message
        message = place_of(frame, wire.messages, reading.earlier)
    return Opening(
        list(draft.prompt_ids) if draft.request.return_token_ids else msgspec.UNSET,
        notes_of(draft.prefix, message),
    )


def _shape(wire: ChatRequest, draft: Draft, post: Post) -> ChatShape:
    return ChatShape(
        n=draft.request.n,
        prompt_tokens=len(draft.prompt_ids),
        logprobs=bool(wire.logprobs),
        prompt_alternatives=wire.prompt_logprobs or 0,
        expose_reasoning=post.may_see_reasoning,
    )
