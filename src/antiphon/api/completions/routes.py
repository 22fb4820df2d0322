"""POST /v1/completions, and the routes of middles of other servers: /v1/fim/completions and /infill."""

from __future__ import annotations

import secrets
from functools import partial

from msgspec.structs import replace

from antiphon.api.chat.read import Reading
from antiphon.api.chat.schema import ChatChunk, ChatCompletion
from antiphon.api.chat.write import AnswerHead, ChatShape, ChatWriter
from antiphon.api.openapi.parts import Described, operation
from antiphon.generation import Draft, Model, plan_turn
from antiphon.http.context import day_of
from antiphon.http.post import Post, PostRoute
from antiphon.tokens import decode
from antiphon.wire.dialect import Dialect

from .read import read_completion, read_middle
from .schema import CompletionRequest, FimRequest, InfillAnswer, InfillEvent, InfillRequest
from .write import CompletionHead, CompletionWriter, InfillWriter


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


MISTRAL = Dialect(name="mistral", usage="last")
"""How the answer to POST /v1/fim/completions is written: a chat's, whose stream ends with the usage."""
RENAMED = {"prompt": "input_prefix", "suffix": "input_suffix"}
"""Fields of a completion by their names in POST /infill."""
WITHOUT_EFFECT = ("samplers", "n_indent", "t_max_prompt_ms", "t_max_predict_ms")


class Middles(PostRoute):
    """Writes what stands between two texts: the way of both routes from their body to a draft."""

    async def _draft(self, post: Post, wire: FimRequest | InfillRequest, model: Model, *, most: int | None) -> Draft:
        context, stream = self._context, post.exchange.stream
        reading = Reading(context.dialect, context.limits, day_of(post.created_at), post.tenant, stream=stream)
        read = partial(read_middle, wire, model, reading, reveals=post.may_see_reasoning)
        return await post.plan(model, read, most=most)


class FimCompletions(Middles):
    """Mistral's: the middle is the message of a chat's answer."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(FimRequest)
        post.streams(wire.stream)
        model = await post.model(wire.model)
        draft = await self._draft(post, wire, model, most=None)
        id, created = f"fim-{secrets.token_hex(12)}", int(post.created_at)
        head = AnswerHead(id=id, created=created, model=model.name, dialect=MISTRAL)
        shape = ChatShape(prompt_tokens=len(draft.prompt_ids))
        await post.answer([draft], ChatWriter(head, shape, post.form))


class Infill(Middles):
    """llama.cpp's, which editors use."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(InfillRequest)
        names = post.exchange.names
        post.exchange.names = replace(names, restored={**RENAMED, **names.restored})
        post.ignore(name for name in WITHOUT_EFFECT if getattr(wire, name))
        post.streams(wire.stream)
        model = await post.model(wire.model)
        # Files leave room for the middle, or for a quarter of the context.
        room = min(wire.max_tokens or model.context, model.context // 4)
        draft = await self._draft(post, wire, model, most=model.context - room if wire.input_extra else None)
        truncated = len(draft.request.conversation.messages) <= len(wire.input_extra or ())
        fields = wire.response_fields or ()
        writer = InfillWriter(model.name, len(draft.prompt_ids), post.form, fields=fields, truncated=truncated)
        await post.answer([draft], writer)


DESCRIBED = Described(
    (FimRequest, InfillRequest, InfillAnswer, InfillEvent),
    {
        "/v1/fim/completions": {
            "post": operation("Writes what stands before a suffix.", ChatCompletion, body=FimRequest, events=ChatChunk)
        },
        "/v1/infill": {
            "post": operation("Writes what stands in the middle.", InfillAnswer, body=InfillRequest, events=InfillEvent)
        },
    },
)
