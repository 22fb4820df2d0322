"""Anthropic's Messages: /v1/messages, the tokens of one, and the models in its words."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from antiphon.api.messages.make import MessageMaker, PlannedMessage
from antiphon.api.openapi.messages import messages_routes
from antiphon.api.wires import Wire
from antiphon.config import named_by
from antiphon.errors import AntiphonError, NotFoundError, Position, near
from antiphon.formats.template import takes_later_system
from antiphon.generation import Model, ModelFacts, constrain, plan_turn
from antiphon.http.context import Context
from antiphon.http.error_shapes import ANTHROPIC_ERRORS
from antiphon.http.exchange import KEY, Exchange
from antiphon.http.gate.access import PREFIXES
from antiphon.http.post import Post, PostRoute
from antiphon.wire.chat.messages import Recalled
from antiphon.wire.chat.unfinished import TurnMemory
from antiphon.wire.dialect import OPENAI
from antiphon.wire.errors import refused
from antiphon.wire.json import encode
from antiphon.wire.messages.answer_schema import MessageAnswer, MessageTokens, MessageUsage
from antiphon.wire.messages.block_writers import MessageView
from antiphon.wire.messages.models import MessagesModel, messages_model, page_of
from antiphon.wire.messages.read import MessagesReading, RequestedMessage, read_request, thinks
from antiphon.wire.messages.schema import MessagesRequest, MessageTokensRequest
from antiphon.wire.messages.unfinished import MessageMemory, as_chat
from antiphon.wire.messages.write import MessagesWriter
from antiphon.wire.sse import named_event

VERSION = "anthropic-version"
"""The header that every client of this API sends: the models are told in its words to who does."""
PLACE = "/anthropic"
"""Where the API is alone, whatever else a path could mean."""
SESSION = "x-claude-code-session-id"


class MessagesRoute(PostRoute):
    """What the routes that read messages do alike."""

    async def model(self, post: Post, name: str) -> Model:
        """The model of that name. Raises `NotFoundError`, with what Claude Code's user can do."""
        if not name:
            raise refused("model", "must be named.", code="missing_required_parameter")
        try:
            return await post.model(name)
        except NotFoundError as error:
            if name.startswith("claude"):
                error.hint = f"Set ANTHROPIC_MODEL to a model of this server, or give one the alias {name[:100]!r}."
            raise

    def reading(self, post: Post, model: Model, recalled: Recalled) -> MessagesReading:
        context, owner = self._context, post.exchange.owner
        return MessagesReading(
            limits=context.limits,
            decrypt=lambda sealed, path: context.cipher.decrypt(sealed, owner, path),
            today=context.today,
            tenant=post.tenant.asking(affinity=post.exchange.headers.get(SESSION)),
            in_place=takes_later_system(model.format),
            bounds=model.compiler is not None and model.engine.info.grammar,
            server=context.tools.offered(builtins=model.format.framed) if context.tools else None,
            always=context.offer_tools,
            framed=model.format.framed,
            recalled=recalled,
        )

    async def planned(self, post: Post, wire: MessageTokensRequest, model: Model) -> PlannedMessage:
        """The turn that the body asks for, with all that can be refused of it; what is ignored is noted."""
        turns = TurnMemory(self._context.turns, post.exchange.owner, model.name, post.off_loop)
        memory = MessageMemory(turns, await post.off_loop(lambda: as_chat(wire)))
        reading = self.reading(post, model, await memory.recall())
        requested = await post.off_loop(lambda: read_request(wire, reading))
        post.ignore(requested.ignored)
        draft = await post.off_loop(lambda: plan_turn(model, requested.turn))
        return PlannedMessage(requested, await constrain(draft), memory)


class CreateMessage(MessagesRoute):
    """POST /v1/messages."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(MessagesRequest)
        post.exchange.stream = wire.stream is True
        model = await self.model(post, wire.model)
        id = f"msg_{secrets.token_hex(12)}"
        planned = await self.planned(post, wire, model)
        usage = MessageUsage(input_tokens=len(planned.plan.prompt_ids), output_tokens=0)
        head = MessageAnswer(id=id, model=wire.model, content=[], usage=usage)

        def broken(error: AntiphonError) -> bytes:
            return named_event("error", post.error_body(error))

        writer = MessagesWriter(head, self._view(post, wire, planned.requested), broken)
        await MessageMaker(post, planned, id).answer(writer)

    def _view(self, post: Post, wire: MessagesRequest, requested: RequestedMessage) -> MessageView:
        cipher, owner = self._context.cipher, post.exchange.owner
        omitted = wire.thinking is not None and wire.thinking.display == "omitted"
        tools = requested.tools
        return MessageView(
            encrypt=lambda message: cipher.encrypt(message, owner),
            thinking=thinks(wire),
            exposed=post.reveals and not omitted,
            stops=frozenset(requested.turn.stop),
            served=frozenset(tools.server.router.recipients if tools.server else ()),
            shown=tools.shown,
        )


class CountMessageTokens(MessagesRoute):
    """POST /v1/messages/count_tokens: how many tokens the prompt of such a message has, if it is none to refuse."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(MessageTokensRequest)
        model = await self.model(post, wire.model)
        planned = await self.planned(post, wire, model)
        await post.send_json(MessageTokens(input_tokens=len(planned.plan.prompt_ids)))


class MessagesModels:
    """GET /v1/models and /v1/models/{id} for clients of this API: each model, and each of its aliases."""

    def __init__(self, context: Context) -> None:
        self._source = context.source

    async def list(self, request: Request) -> Response:
        source = self._source
        cards = [self._card(name, name, source.facts(name)) for name in source.names]
        cards += [
            self._card(alias, name, source.facts(name))
            for name in source.names
            for alias in source.aliases(name)
            if "*" not in alias
        ]
        return _json(page_of(cards, request.query_params))

    async def one(self, request: Request) -> Response:
        id, source = request.path_params["id"], self._source
        name = id if id in source.names else named_by(id, {name: source.aliases(name) for name in source.names})
        if name is None:
            raise NotFoundError(
                f"The model {id[:200]!r} does not exist.",
                code="model_not_found",
                position=Position(path="model"),
                hint=near(id[:200], source.names),
            )
        return _json(self._card(id, name, source.facts(name)))

    def _card(self, id: str, name: str, facts: ModelFacts | None) -> MessagesModel:
        return messages_model(
            id,
            name,
            created=self._source.created(name),
            context=facts.context if facts else None,
            most=facts.max_output_tokens if facts else None,
        )


class SelectedRoute(Route):
    """A route for some of the requests that its path and methods fit; others are for who comes after."""

    def __init__(
        self, path: str, endpoint: Callable[..., object], *, methods: list[str], takes: Callable[[Scope], bool]
    ) -> None:
        super().__init__(path, endpoint, methods=methods)
        self._takes = takes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if self._takes(scope) else (Match.NONE, {})


def _marked(scope: Scope) -> bool:
    return any(name == VERSION.encode() for name, _ in scope.get("headers", ()))


def _is_head(scope: Scope) -> bool:
    return scope.get("method") == "HEAD"


async def alive(request: Request) -> Response:
    """HEAD /, which Claude Code asks once at its start."""
    exchange: Exchange = request.scope[KEY]
    assert exchange.method == "HEAD"
    return Response()


def _json(value: object) -> Response:
    return Response(encode(value), media_type="application/json")


def _routes(context: Context) -> list[Route]:
    context = replace(context, dialect=OPENAI)  # Another dialect's rules are not this API's.
    models = MessagesModels(context)
    placed = [f"{PLACE}{prefix}" for prefix in PREFIXES]
    routes: list[Route] = [SelectedRoute("/", alive, methods=["HEAD"], takes=_is_head)]
    for prefix in (*PREFIXES, *placed):
        routes.append(Route(f"{prefix}/messages", CreateMessage(context), methods=["POST"]))
        routes.append(Route(f"{prefix}/messages/count_tokens", CountMessageTokens(context), methods=["POST"]))
    for prefix in PREFIXES:
        routes.append(SelectedRoute(f"{prefix}/models", models.list, methods=["GET"], takes=_marked))
        routes.append(SelectedRoute(f"{prefix}/models/{{id:path}}", models.one, methods=["GET"], takes=_marked))
    for prefix in placed:
        routes.append(Route(f"{prefix}/models", models.list, methods=["GET"]))
        routes.append(Route(f"{prefix}/models/{{id:path}}", models.one, methods=["GET"]))
    return routes


MESSAGES = Wire(
    name="messages",
    routes=_routes,
    places=(*(f"{prefix}/messages" for prefix in PREFIXES), PLACE),
    shared_places=tuple(f"{prefix}/models" for prefix in PREFIXES),
    mark=VERSION,
    errors=ANTHROPIC_ERRORS,
    described=messages_routes(),
)
