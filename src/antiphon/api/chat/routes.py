"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import msgspec

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
from .request import server_tools, turn_memory
from .schema import ChatRequest
from .write import AnswerHead, ChatShape, ChatWriter, Opening

# Records the answer to a chat request that is to be stored.


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
        # Read: the body, and what of the conversation is here.
        context, exchange = self._context, post.exchange
        wire = await post.read(ChatRequest)
        check_begins(wire)
        if wire.store:
            check_metadata(metadata_of(wire))
        stream, model, began = post.streams(wire.stream), await post.model(wire.model), post.created_at
        id, name = post.answer_id(completion_id(began)), session_name(wire.session_id)
        start, ends = wire.sequence_start, bool(wire.sequence_end)
        turn: AbstractAsyncContextManager[SessionTurn | None] = nullcontext()
        if name is not None:
            turn = session_turn(context.sessions, name, owner=exchange.owner, start=start, ends=ends)
        async with turn as session:
            tools = server_tools(context, wire, model.format, session=id)
            memory = None if session else turn_memory(context, exchange, model, post.off_loop)
            reading = Reading(
                context.dialect,
                context.limits,
                day_of(began),
                post.tenant.asking(affinity=session.affinity if session else None),
                session.history if session else (),
                stream,
                tools.offer if tools else None,
                customs=True,
            )
            # Plan: the prompt's ids and the sampling.
            more = (session.size if session else 0) + (context.limits.off_loop_above if wire.explain_prefix else 0)
            most = context.dialect.prompt_limit(model.context)
            draft = await post.plan(model, lambda: to_turn(wire, reading), memory=memory, most=most, more=more)
            taken = draft.request.conversation.settings.template_kwargs
            post.ignore(f"chat_template_kwargs.{key}" for key in wire.chat_template_kwargs or {} if key not in taken)
            # Write: the answer's form, and what is stored of it.
            head, shape = _head(wire, draft, reading, memory, id=id, created=began), _shape(wire, draft, post)
            record = CompletionRecord(post, wire, head, shape) if wire.store else None
            writer: Writer[Event] = record or ChatWriter(head, shape, post.form)
            remembers = memory.keeper(draft.request, tools) if memory else None
            keep = in_order(remembers, record.keep if record else None)
            # Admit and drive.
            await post.answer([draft], writer, session=session, tools=tools, keep=keep, id=id, began=began)


def _head(
    wire: ChatRequest, draft: Draft, reading: Reading, memory: TurnMemory | None, *, id: str, created: float
) -> AnswerHead:
    options, lost, place = wire.stream_options, draft.prefix.lost if draft.prefix else None, None
    if lost is not None and lost.message is not None:
        frame = memory.place_as_sent(lost.message) if memory else lost.message
        place = place_of(frame, wire.messages, reading.earlier)
    return AnswerHead(
        id=id,
        created=int(created),
        model=draft.model.name,
        dialect=reading.dialect,
        service_tier="default" if wire.service_tier and not reading.dialect.bare else msgspec.UNSET,
        usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        opening=Opening(
            list(draft.prompt_ids) if draft.request.return_token_ids else msgspec.UNSET, notes_of(draft.prefix, place)
        ),
    )


def _shape(wire: ChatRequest, draft: Draft, post: Post) -> ChatShape:
    return ChatShape(
        n=draft.request.n,
        prompt_tokens=len(draft.prompt_ids),
        logprobs=bool(wire.logprobs),
        prompt_alternatives=wire.prompt_logprobs or 0,
        expose_reasoning=post.may_see_reasoning,
        customs=frozenset(tool.custom.name for tool in wire.tools or () if tool.type == "custom" and tool.custom),
    )
