"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from antiphon.api.chat.record import CompletionRecord, check_stored
from antiphon.api.context import Context
from antiphon.api.post import Post, PostRoute
from antiphon.api.server_tools import server_tools
from antiphon.api.session import SessionTurn, session_turn
from antiphon.conversation import Message
from antiphon.generation import Draft, Model, plan_turn
from antiphon.wire.chat.listing import completion_id
from antiphon.wire.chat.messages import place_of
from antiphon.wire.chat.read import Reading, check_begins, to_turn
from antiphon.wire.chat.schema import ChatRequest
from antiphon.wire.chat.write import AnswerHead, ChatShape, ChatWriter, Opening
from antiphon.wire.fields import session_name
from antiphon.wire.prompt_notes import notes_of


class ChatCompletions(PostRoute):
    """Goes on with a conversation, or with a session's; the completion is stored where the request has ``store``."""

    async def answer(self, post: Post) -> None:
        context = self._context
        wire = await post.read(ChatRequest)
        check_begins(wire)
        check_stored(wire)
        stream = post.streams(wire.stream)
        model = await post.model(wire.model)
        id = completion_id(context.clock())
        async with AsyncExitStack() as stack:
            session = await self._session(wire, post.exchange.owner, stack)
            tenant = post.tenant.asking(affinity=session.affinity if session else None)
            earlier = session.history if session else ()
            tools = server_tools(context, wire, model.format, session=id)
            offer = tools.offer if tools else None
            reading = Reading(context.dialect, context.limits, context.today, tenant, earlier, stream, offer)
            more = (session.size if session else 0) + (context.limits.off_loop_above if wire.explain_prefix else 0)
            draft = await post.off_loop(lambda: _draft(wire, model, reading), more=more)
            taken = draft.request.conversation.settings.template_kwargs
            post.ignore(f"chat_template_kwargs.{key}" for key in wire.chat_template_kwargs or {} if key not in taken)
            head, shape = _head(wire, draft, context, id, earlier), _shape(wire, draft, post)
            if wire.store:
                record = CompletionRecord(post, wire, head, shape)
                await post.answer([draft], record, session=session, tools=tools, keep=record.keep)
            else:
                await post.answer([draft], ChatWriter(head, shape, post.form), session=session, tools=tools)

    async def _session(self, wire: ChatRequest, owner: str, stack: AsyncExitStack) -> SessionTurn | None:
        """The session that the request names, which no other request has meanwhile."""
        name = session_name(wire.session_id)
        if name is None:
            return None
        turn = session_turn(
            self._context.sessions, name, owner=owner, start=wire.sequence_start, ends=bool(wire.sequence_end)
        )
        return await stack.enter_async_context(turn)


def _draft(wire: ChatRequest, model: Model, reading: Reading) -> Draft:
    return plan_turn(model, to_turn(wire, reading), most=reading.dialect.prompt_limit(model.context))


def _head(wire: ChatRequest, draft: Draft, context: Context, id: str, earlier: Sequence[Message]) -> AnswerHead:
    options = wire.stream_options
    return AnswerHead(
        id=id,
        created=int(context.clock()),
        model=draft.model.name,
        dialect=context.dialect,
        usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        opening=_opening(wire, draft, earlier),
    )


def _opening(wire: ChatRequest, draft: Draft, earlier: Sequence[Message]) -> Opening:
    lost = draft.prefix.lost if draft.prefix else None
    message = None if lost is None or lost.message is None else place_of(lost.message, wire.messages, earlier)
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
        expose_reasoning=post.reveals,
    )
