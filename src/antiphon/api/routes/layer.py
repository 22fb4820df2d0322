"""POST /v1/tokenize, /detokenize, /render, /parse: no engine works for these, so they wait for no slot."""

from __future__ import annotations

from starlette.routing import Route

from antiphon.api.call import Call, Posted
from antiphon.api.context import Context
from antiphon.tokens import decode
from antiphon.wire.chat.read import Reading
from antiphon.wire.native.schema import Detokenized, DetokenizeRequest, ParseRequest, RenderRequest, TokenizeRequest
from antiphon.wire.native.write import known_ids, parse, render, tokenize


def layer_routes(context: Context, prefix: str) -> list[Route]:
    return [
        Route(f"{prefix}/tokenize", Tokenize(context), methods=["POST"]),
        Route(f"{prefix}/detokenize", Detokenize(context), methods=["POST"]),
        Route(f"{prefix}/render", Render(context), methods=["POST"]),
        Route(f"{prefix}/parse", Parse(context), methods=["POST"]),
    ]


class Tokenize(Posted):
    async def answer(self, call: Call) -> None:
        wire = call.read(TokenizeRequest)
        model = await call.model(wire.model)
        await call.tell(await call.planned(lambda: tokenize(wire, model, reading_of(call))))


class Detokenize(Posted):
    """Control tokens are spelled out; bytes that are no characters are U+FFFD."""

    async def answer(self, call: Call) -> None:
        wire = call.read(DetokenizeRequest)
        model = await call.model(wire.model)
        known_ids(wire.tokens, "tokens", model.tokenizer)
        await call.tell(Detokenized(await call.planned(lambda: decode(model.tokenizer, wire.tokens))))


class Render(Posted):
    async def answer(self, call: Call) -> None:
        wire = call.read(RenderRequest)
        model = await call.model(wire.model)
        await call.tell(await call.planned(lambda: render(wire, model, reading_of(call))))


class Parse(Posted):
    async def answer(self, call: Call) -> None:
        wire = call.read(ParseRequest)
        model = await call.model(wire.model)
        await call.tell(await call.planned(lambda: parse(wire, model)))


def reading_of(call: Call) -> Reading:
    context = call.context
    return Reading(context.dialect, context.limits, context.today)
