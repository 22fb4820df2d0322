"""POST …/render: the request of ids that a chat, a message, a response or completions would be to an engine."""

from __future__ import annotations

import secrets
from codecs import getincrementaldecoder
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from antiphon.api.chat.read import to_turn
from antiphon.api.chat.request import offered, reading_of
from antiphon.api.completions.read import read_completion
from antiphon.api.messages.routes import MessagesRoute
from antiphon.api.messages.schema import MessagesRequest
from antiphon.api.responses.archive import History
from antiphon.api.responses.read import check_possible, with_sampling
from antiphon.api.responses.request import RequestReader
from antiphon.api.responses.schema import ResponsesRequest
from antiphon.generation import Draft, Plan, constrain, plan_turn
from antiphon.http.post import Post, PostRoute
from antiphon.tokens import Control, Tokenizer
from antiphon.wire.dialect import session_name
from antiphon.wire.errors import refused

from .schema import GenerateRequest, RenderChatRequest, RenderCompletionRequest

_utf8 = getincrementaldecoder("utf-8")


class RenderChat(PostRoute):
    """POST /v1/chat/completions/render."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(RenderChatRequest)
        if session_name(wire.session_id) is not None:
            raise refused("session_id", "prompts of sessions are not rendered.", hint="Send all messages.")
        model = await post.model(wire.model)
        reading = reading_of(post, wire.stream, offered(self._context, wire, model))
        draft = await post.plan(model, lambda: to_turn(wire, reading))
        await post.send_json(
            await rendered(
                post, draft, f"chatcmpl-{_id(post, wire.request_id)}",
                offsets=bool(wire.return_token_offsets),
                stream=bool(wire.stream), stream_options=wire.stream_options if wire.stream else None,
                cache_salt=wire.cache_salt, priority=wire.priority or 0,
            )
        )  # fmt: skip


class RenderMessages(MessagesRoute):
    """POST /v1/messages/render: a request of Anthropic's."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(MessagesRequest)
        model = await self.model(post, wire.model)
        planned = await self.planned(post, wire, model)
        id = f"chatcmpl-{_id(post, None)}"
        await post.send_json(await rendered(post, planned.plan, id, stream=wire.stream is True))


class RenderResponses(PostRoute):
    """POST /v1/responses/render. Nothing that is stored is read."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(ResponsesRequest)
        for name in ("previous_response_id", "conversation"):
            if getattr(wire, name):
                hint = "Send all input."
                raise refused(name, "nothing stored is read here.", code="unsupported_parameter", hint=hint)
        check_possible(wire)
        model, token = await post.model(wire.model), secrets.token_hex(12)
        async with AsyncExitStack() as resources:
            reader = RequestReader(self._context, post.exchange, token, resources)
            entries = await reader.entries(wire, History())
            clients = await reader.clients(wire, entries)
            requested = reader.requested(model, wire, History(entries).messages, clients=clients)
        requested = with_sampling(requested, wire)
        post.ignore(requested.ignored)
        draft = await post.plan(model, lambda: requested.turn)
        made = await rendered(post, draft, f"resp_{token}", stream=bool(wire.stream), cache_salt=wire.cache_salt)
        await post.send_json(made)


class RenderCompletions(PostRoute):
    """POST /v1/completions/render: a request of ids for each prompt."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(RenderCompletionRequest)
        model, reading = await post.model(wire.model), reading_of(post, wire.stream)
        if wire.echo or wire.suffix:
            raise refused("echo" if wire.echo else "suffix", "it is no part of a request of ids.")
        requested = await post.off_loop(lambda: read_completion(wire, model, reading, reveals=post.may_see_reasoning))
        drafts = await post.off_loop(lambda: [plan_turn(model, turn) for turn in requested.turns])
        id = f"cmpl-{_id(post, wire.request_id)}"
        answers = [
            await rendered(
                post, draft, id if len(drafts) == 1 else f"{id}-{i}",
                offsets=bool(wire.return_token_offsets),
                stream=bool(wire.stream), stream_options=wire.stream_options if wire.stream else None,
                cache_salt=wire.cache_salt, priority=wire.priority or 0,
            )
            for i, draft in enumerate(drafts)
        ]  # fmt: skip
        await post.send_json(answers)


def _id(post: Post, given: str | None) -> str:
    return given or post.exchange.id


async def rendered(post: Post, draft: Draft, id: str, *, offsets: bool = False, **more: Any) -> GenerateRequest:
    """The draft as a request of ids; a grammar that it requires is in ``structured_outputs``, of the whole reply.

    Raises `RequestError` for a schema, pattern or choice that no grammar can enforce.
    """
    required = draft.request.requires_grammar
    plan = await constrain(draft) if required and not isinstance(draft, Plan) else draft
    grammar = plan.grammar if required and isinstance(plan, Plan) else None
    for incident in plan.incidents:
        post.exchange.note_incident(incident.code)
    ids = list(plan.prompt_ids)
    return GenerateRequest(
        request_id=id,
        token_ids=ids,
        sampling_params=sampling_params(plan, grammar),
        model=plan.model.name,
        token_offsets=token_offsets(ids, plan.model.tokenizer) if offsets else None,
        reasoning_ended=None if grammar is None else True,
        **more,
    )


def sampling_params(plan: Draft, grammar: str | None) -> dict[str, Any]:
    """The settings that count, in vLLM's names: what is not there is its default."""
    request, sampling = plan.request, plan.sampling
    params: dict[str, Any] = {
        "n": request.n,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": request.seed,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "stop": list(request.stop),
        "stop_token_ids": sorted(sampling.stop_ids),
        "ignore_eos": sampling.ignore_eos,
        "min_tokens": sampling.min_tokens,
        "include_stop_str_in_output": request.include_stop,
        "logprobs": sampling.logprobs,
        "prompt_logprobs": request.prompt_logprobs,
        "skip_special_tokens": False,
    }
    if sampling.logit_bias:
        params["logit_bias"] = {str(id): bias for id, bias in sampling.logit_bias.items()}
    if grammar is not None:
        params["structured_outputs"] = {"grammar": grammar}
    return params


def token_offsets(ids: Sequence[int], tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Begin and end of each token in the text, in characters; one that is part of a character has all of it."""
    decoder, at, offsets = _utf8("replace"), 0, list[tuple[int, int]]()
    for id in ids:
        piece = tokenizer.piece(id)
        start = at
        at += len(decoder.decode(piece.spelling.encode() if isinstance(piece, Control) else piece))
        offsets.append((start, at + bool(decoder.getstate()[0])))
    return offsets
