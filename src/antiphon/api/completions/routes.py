"""POST /v1/completions."""

from __future__ import annotations

import secrets

from antiphon.api.chat.read import Reading
from antiphon.generation import plan_turn
from antiphon.http.context import day_of
from antiphon.http.post import Post, PostRoute
from antiphon.tokens import decode

from .read import read_completion
from .schema import CompletionRequest
from .write import CompletionHead, CompletionWriter


class Completions(PostRoute):
    """Goes on with texts: several prompts, several choices of each."""

    async def answer(self, post: Post) -> None:
        context = self._context
        wire = await post.read(CompletionRequest)
        stream = post.streams(wire.stream)
        model = await post.model(wire.model)
        began = post.created_at
        reading = Reading(context.dialect, context.limits, day_of(began), post.tenant, stream=stream)
        requested = await post.off_loop(lambda: read_completion(wire, model, reading, reveals=post.may_see_reasoning))
        most = context.dialect.prompt_limit(model.context)
        drafts = await post.off_loop(lambda: [plan_turn(model, turn, most=most) for turn in requested.turns])
        options = wire.stream_options
        id = post.answer_id(f"cmpl-{secrets.token_hex(12)}")
        head = CompletionHead(
            id=id,
            created=int(began),
            model=model.name,
            dialect=context.dialect,
            prompts=tuple(draft.prompt_ids for draft in drafts),
            first_tokens=tuple(decode(model.tokenizer, draft.prompt_ids[:1]).encode() for draft in drafts),
            returns_ids=bool(wire.return_token_ids),
            alternatives=wire.logprobs or 0,
            usage=bool(options and options.include_usage),
            continuous_usage=bool(options and options.continuous_usage_stats),
        )
        await post.answer(drafts, CompletionWriter(head, requested, post.form), id=id, began=began)
