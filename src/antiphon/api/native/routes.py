"""POST /v1/tokenize, /detokenize, /render, /parse, /convert, /schemas/check, /templates/…; GET /tokenizer_info.

No engine works for these, so they wait for no slot.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.chat.request import offered, reading_of
from antiphon.api.chat.schema import ChatRequest
from antiphon.generation import Model
from antiphon.http.context import Context
from antiphon.http.exchange import json_response
from antiphon.http.post import Post, PostRoute
from antiphon.wire.dialect import session_name
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from .parse import STATE_WEIGHT, StateSigner, parse, parse_part, request_digest, same_in_parts
from .schema import DetokenizeRequest, ParseRequest, RenderRequest, TokenizeRequest
from .schema_check import CHECK, MOST_TEXT, SchemaCheckRequest
from .template_work import checked_template, tried_own, tried_template
from .templates import TemplateCheckRequest, TemplateTryRequest
from .write import EncodeRequest, detokenize, encode_texts, render, tokenize, tokenizer_info

# POST /v1/encode, LMDeploy's way to tokenize. No engine works for it, so it waits for no slot.


class Encode(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(EncodeRequest)
        model = await post.model(wire.model)
        await post.send_json(await post.off_loop(lambda: encode_texts(wire, model, reading_of(post))))


# POST /v1/schemas/check: what of a JSON Schema is enforced and when, and where a text leaves it.


class CheckSchema(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(SchemaCheckRequest)
        if wire.text is not None and len(wire.text) > MOST_TEXT:
            raise refused("text", f"has {len(wire.text)} characters; at most {MOST_TEXT} are followed.")
        answer = await post.context.isolation.run(CHECK, encode(wire), owner=post.tenant.owner)
        await post.send_response(Response(answer, media_type="application/json"))


# POST /v1/templates/check: what is understood of a chat template; /v1/templates/try: one prompt and one reply.


class CheckTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateCheckRequest)
        model = await _model(post, wire)
        isolated = post.context.isolation
        await post.send_json(await checked_template(wire, model, isolated, post.tenant.owner))


class TryTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateTryRequest)
        model, reading = await _model(post, wire), reading_of(post)
        if wire.template is None and model is not None:
            await post.send_json(await asyncio.to_thread(tried_own, wire, model, reading))
            return
        isolated = post.context.isolation
        await post.send_json(await tried_template(wire, model, reading, isolated, post.tenant.owner))


async def _model(post: Post, wire: TemplateCheckRequest | TemplateTryRequest) -> Model | None:
    """The model that is named, or the default where no template is there."""
    return await post.model(wire.model) if wire.model is not None or wire.template is None else None


_SESSIONS = "Send all messages."


class Tokenize(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TokenizeRequest)
        model = await post.model(wire.model)
        reading = reading_of(post, offer=offered(self._context, ChatRequest(messages=[]), model))
        await post.send_json(await post.off_loop(lambda: tokenize(wire, model, reading)))


class Detokenize(PostRoute):
    """Control tokens are spelled out; bytes that are no characters are U+FFFD."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(DetokenizeRequest)
        model = await post.model(wire.model)
        await post.send_json(await post.off_loop(lambda: detokenize(wire, model)))


class ShowTokenizer:
    """The vocabulary of the model that ``model`` in the query names, or of the default."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def get(self, request: Request) -> Response:
        model = await self._context.model(request.query_params.get("model"))
        return json_response(tokenizer_info(model))


class Render(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(RenderRequest)
        if session_name(wire.session_id) is not None:
            raise refused("session_id", "prompts of sessions are not rendered.", hint=_SESSIONS)
        model = await post.model(wire.model)
        reading = reading_of(post, wire.stream, offered(self._context, wire, model))
        await post.send_json(await post.off_loop(lambda: render(wire, model, reading, post.exchange.note_incident)))


class Parse(PostRoute):
    """A reply at once, or with ``state`` a part of it."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(ParseRequest)
        if session_name(wire.session_id) is not None:
            raise refused("session_id", "replies of sessions are not parsed.", hint=_SESSIONS)
        model, context = await post.model(wire.model), self._context
        reading = reading_of(post, wire.stream, offered(context, wire, model))
        if wire.state is None:
            await post.send_json(await post.off_loop(lambda: parse(wire, model, reading)))
            return
        digest, created = request_digest(same_in_parts(wire), model), int(post.created_at)
        signer = StateSigner(context.cipher, post.exchange.owner, digest)
        again = STATE_WEIGHT * len(wire.state)  # All that the state has is read once more.
        await post.send_json(await post.off_loop(lambda: parse_part(wire, model, reading, signer, created), more=again))
