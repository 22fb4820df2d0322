"""POST /v1/tokenize, /detokenize, /render, /parse, /convert, /schemas/check, /templates/…; GET /tokenizer_info.

No engine works for these, so they wait for no slot.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.chat.schema import ChatRequest
from antiphon.api.reading import offered, reading_of
from antiphon.http.context import Context
from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused
from antiphon.wire.fields import session_name
from antiphon.wire.json import encode

from .schema import DetokenizeRequest, ParseRequest, RenderRequest, TokenizeRequest
from .write import detokenize, parse, render, tokenize, tokenizer_info

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
        return Response(encode(tokenizer_info(model)), media_type="application/json")


class Render(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(RenderRequest)
        if session_name(wire.session_id) is not None:
            raise refused("session_id", "prompts of sessions are not rendered.", hint=_SESSIONS)
        model = await post.model(wire.model)
        reading = reading_of(post, wire.stream, offered(self._context, wire, model))
        await post.send_json(await post.off_loop(lambda: render(wire, model, reading)))


class Parse(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(ParseRequest)
        model = await post.model(wire.model)
        await post.send_json(await post.off_loop(lambda: parse(wire, model)))
