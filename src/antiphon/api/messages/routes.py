"""Anthropic's Messages: /v1/messages, the tokens of one, and the models in its words."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.chat.request import turn_memory
from antiphon.config import named_by
from antiphon.conversation import FinishReason
from antiphon.errors import NotFoundError, Position, near
from antiphon.formats.template import takes_later_system
from antiphon.generation import Model, ModelFacts, Plan, RoundEvent, constrain, prompt_read
from antiphon.generation.images import prompt_tokens
from antiphon.generation.rounds import Rounds
from antiphon.generation.turn import Source
from antiphon.generation.unfinished import TurnMemory
from antiphon.http.context import Context
from antiphon.http.exchange import exchange_of, json_response
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused
from antiphon.wire.writer import named_event

from .answer_schema import AppliedEdits, MessageAnswer, MessageTokens, MessageUsage
from .block_writers import MessageView
from .described import messages_routes
from .read import MessagesReading, RequestedMessage, read_request, thinks
from .schema import MessagesRequest, MessageTokensRequest
from .write import MessagesWriter


class PlannedMessage(msgspec.Struct, frozen=True):
    """A request that can be answered. ``memory`` is where its turn is stored while calls of it wait for results."""

    requested: RequestedMessage
    plan: Plan
    memory: TurnMemory


# Models as Anthropic lists them.

USUAL, MOST = 20, 1000
"""Models of a page, and the most of one."""


class MessagesModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, or an alias of one. Its limits in tokens are there where they are known."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    max_input_tokens: int | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    lifecycle: Literal["active"] = "active"


class MessagesModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[MessagesModel]
    has_more: bool
    first_id: str | None
    last_id: str | None


def messages_model(id: str, name: str, *, created: int, context: int | None, most: int | None) -> MessagesModel:
    """The model ``name`` under ``id``. ``created`` is a Unix time in seconds, ``most`` the longest answer."""
    limit = most or context
    return MessagesModel(
        id=id,
        display_name=name if id == name else f"{id} ({name})",
        created_at=datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=context or UNSET,
        max_tokens=limit or UNSET,
    )


def page_of(models: Sequence[MessagesModel], query: Mapping[str, str]) -> MessagesModelList:
    """The page that ``limit``, ``after_id`` and ``before_id`` ask for. Raises `RequestError`."""
    limit, ids = _limit(query.get("limit")), [model.id for model in models]
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None and before is not None:
        raise refused("before_id", "cannot be together with after_id.")
    if before is not None:
        end = _place(before, "before_id", ids)
        start = max(0, end - limit)
        return _page(models[start:end], more=start > 0)
    start = 0 if after is None else _place(after, "after_id", ids) + 1
    return _page(models[start : start + limit], more=len(models) > start + limit)


def _page(models: Sequence[MessagesModel], *, more: bool) -> MessagesModelList:
    first, last = (models[0].id, models[-1].id) if models else (None, None)
    return MessagesModelList(data=list(models), has_more=more, first_id=first, last_id=last)


def _limit(given: str | None) -> int:
    if given is None:
        return USUAL
    if not (given.isascii() and given.isdecimal() and len(given) < 5 and 1 <= int(given) <= MOST):
        raise refused("limit", f"must be a number from 1 to {MOST}.")
    return int(given)


def _place(id: str, name: str, ids: Sequence[str]) -> int:
    if id not in ids:
        raise refused(name, f"no model is named {id[:200]!r}.")
    return ids.index(id)


SESSION = "x-claude-code-session-id"


class MessagesRoute(PostRoute):
    """Base of the routes that read messages."""

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

    def reading(self, post: Post, model: Model) -> MessagesReading:
        context, owner = self._context, post.exchange.owner
        return MessagesReading(
            limits=context.limits,
            decrypt=lambda sealed, path: context.cipher.decrypt(sealed, owner, path),
            today=context.today,
            tenant=post.tenant.asking(affinity=post.exchange.headers.get(SESSION)),
            in_place=takes_later_system(model.format),
            bounds=model.reply_compiler is not None,
            server=context.tools.offered(builtins=model.format.framed) if context.tools else None,
            always=context.offer_tools,
            framed=model.format.framed,
        )

    async def planned(self, post: Post, wire: MessageTokensRequest, model: Model) -> PlannedMessage:
        """The turn that the body asks for, with all that can be refused of it; what is ignored is noted."""
        reading = self.reading(post, model)
        memory = turn_memory(self._context, post.exchange, model, post.off_loop)
        requested = await post.off_loop(lambda: read_request(wire, reading))
        post.ignore(requested.ignored)
        draft = await post.plan(model, lambda: requested.turn, memory=memory)
        kind = wire.thinking.type if wire.thinking else ""
        if kind == "between_tools" or (kind == "adaptive" and not model.facts.reasoning):
            post.ignore([post.exchange.names.restored.get("thinking.type", "thinking.type")])
        for incident in draft.incidents:
            post.exchange.note_incident(incident.code)
        return PlannedMessage(requested, await constrain(draft), memory)


class CreateMessage(MessagesRoute):
    """POST /v1/messages."""

    async def answer(self, post: Post) -> None:
        # Read and plan.
        wire = await post.read(MessagesRequest)
        post.exchange.stream = wire.stream is True
        model, id = await self.model(post, wire.model), f"msg_{secrets.token_hex(12)}"
        planned = await self.planned(post, wire, model)
        plan, server, meter = planned.plan, planned.requested.tools.server, post.meter()
        # Write.
        usage = MessageUsage(input_tokens=len(plan.prompt_ids), output_tokens=0)
        edits = AppliedEdits() if wire.context_management else UNSET
        head = MessageAnswer(id=id, model=wire.model, content=[], usage=usage, context_management=edits)
        view = self._view(post, wire, planned.requested)
        writer = MessagesWriter(head, view, lambda error: named_event("error", post.error_body(error)))
        # Admit and drive: one turn, or those that follow it while the model calls tools that run here.
        rounds = Rounds(plan, server.router, session=id, meter=meter) if server else None
        source: Source[RoundEvent] = rounds.steps if rounds else post.turn(plan, meter)
        if plan.sampling.max_tokens == 0:  # It reads the prompt, for a next request to go on from.
            source = partial(prompt_read, plan, meter, reason=FinishReason.LENGTH_OUTPUT)
        async with post.admitted():
            run = post.driver([source], keep=planned.memory.keeper(plan.request, rounds))
            await post.deliver(run, writer, Work())

    def _view(self, post: Post, wire: MessagesRequest, requested: RequestedMessage) -> MessageView:
        cipher, owner = self._context.cipher, post.exchange.owner
        omitted = wire.thinking is not None and wire.thinking.display == "omitted"
        tools = requested.tools
        return MessageView(
            encrypt=lambda message: cipher.encrypt(message, owner),
            thinking=thinks(wire),
            exposed=post.may_see_reasoning and not omitted,
            stops=frozenset(requested.turn.stop),
            own=frozenset(tool.recipient for tool in tools.own) if tools.server else None,
            shown=tools.shown,
        )


class CountMessageTokens(MessagesRoute):
    """POST /v1/messages/count_tokens: how many tokens the prompt of such a message has, if it is none to refuse."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(MessageTokensRequest)
        model = await self.model(post, wire.model)
        plan = (await self.planned(post, wire, model)).plan
        tokens = await prompt_tokens(plan.model.engine, plan.prompt_ids, plan.images)
        await post.send_json(MessageTokens(input_tokens=tokens))


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
        return json_response(page_of(cards, request.query_params))

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
        return json_response(self._card(id, name, source.facts(name)))

    def _card(self, id: str, name: str, facts: ModelFacts | None) -> MessagesModel:
        return messages_model(
            id,
            name,
            created=self._source.created(name),
            context=facts.context if facts else None,
            most=facts.max_output_tokens if facts else None,
        )


class Messages:
    """The routes of this API."""

    def __init__(self, context: Context) -> None:
        self.create = CreateMessage(context)
        self.count = CountMessageTokens(context)
        self.models = MessagesModels(context)

    async def alive(self, request: Request) -> Response:
        """HEAD /, which Claude Code asks once at its start."""
        exchange = exchange_of(request)
        assert exchange.method == "HEAD"
        return Response()


DESCRIBED = messages_routes()
