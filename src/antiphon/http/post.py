"""One POST request on its way: what every such route does alike, and the steps that every turn takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from antiphon.conversation import Event
from antiphon.errors import AntiphonError, Position, RequestError
from antiphon.generation import Draft, Meter, Model, Plan, TimeLimits, TurnRequest, check_prompts, constrain
from antiphon.generation.normalize import unheard
from antiphon.generation.recall import draft_turn
from antiphon.generation.resume.tape import ReplayLog
from antiphon.generation.turn import Drive, Keep, Source, drive_all, in_order, steps
from antiphon.generation.unfinished import TurnMemory
from antiphon.observe import RequestMeter
from antiphon.store import Key as StreamKey
from antiphon.tenancy import Tenant
from antiphon.wire.dialect import check_fields, check_shapes, warnings
from antiphon.wire.errors import READS_TEXT, UNREADABLE
from antiphon.wire.json import decode, encode
from antiphon.wire.names.translate import Names
from antiphon.wire.writer import DONE, JSON, StreamForm, Writer

from .attachments import NAMES, attach
from .client import read_json, while_connected
from .context import Context
from .errors import ClientGone, api_error, error_event
from .exchange import GONE, KEY, Exchange
from .gate.large import BodyRoom
from .journal import Recorder
from .lifecycle import Work
from .recorded import KIND, AbandonedStream, RecordedStream, StreamHead, check_resumable, resumable, unrecorded
from .server_tools import ServerToolUse
from .session import SessionTurn
from .sse import Fill, Outbox, fill, send_events

Body = TypeVar("Body", bound=msgspec.Struct)
Result = TypeVar("Result")
EventT = TypeVar("EventT")


class Post(msgspec.Struct, frozen=True):
    """The body that was read, and where its answer goes."""

    context: Context
    exchange: Exchange
    body: bytes
    scope: Scope
    receive: Receive
    send: Send
    left: AbandonedStream | None = None
    """The stream of another server that is continued."""
    room: BodyRoom | None = None
    """The room that the body takes. Without one, nothing is read of what it names."""

    @classmethod
    def unattended(cls, context: Context, exchange: Exchange, body: bytes, left: AbandonedStream | None = None) -> Post:
        """One whose client is gone: nobody hangs up, and nobody gets the answer."""
        return cls(context, exchange, body, {}, _nobody_hangs_up, _nobody_listens, left)

    async def read(self, kind: type[Body]) -> Body:
        """The body as ``kind``; fields that it does not know are noted. Raises `RequestError`."""
        wire, names = await self.off_loop(lambda: self._decoded(kind))
        self.exchange.names = names
        self.exchange.warnings = warnings(wire)
        self.exchange.ignored = names.ignored
        self.context.traffic.ignored_fields += len(names.ignored)
        if self.room is not None and NAMES.search(self.body):
            await attach(wire, self.context, self.exchange, self.room)
        return wire

    def _decoded(self, kind: type[Body]) -> tuple[Body, Names]:
        """The body as its dialect takes it, and how the client named its fields."""
        dialect = self.context.dialect
        body = dialect.respelled(self.body)
        wire, names = decode(body, kind)
        with names.restored_in_errors():
            check_fields(wire, names.foreign, dialect)
            check_shapes(body, dialect)
        return wire, names

    def ignore(self, fields: Iterable[str]) -> None:
        """Notes more of the request that is taken and changes nothing."""
        more = tuple(fields)
        self.exchange.ignored = (*self.exchange.ignored, *more)
        self.context.traffic.ignored_fields += len(more)

    def streams(self, requested: bool | None) -> bool:
        """Whether the answer is streamed: as ``requested``, else as the dialect has it.

        A client whose ``accept`` takes JSON and nothing else cannot read a stream that it did not ask for.
        """
        json_alone = self.exchange.headers.get("accept", "").strip() == JSON
        self.exchange.stream = self.context.dialect.streams(False if requested is None and json_alone else requested)
        return self.exchange.stream

    @property
    def created_at(self) -> float:
        """Unix time in seconds when the answer was begun, be it at another server."""
        return self.left.head.began if self.left else self.context.clock()

    def answer_id(self, id: str) -> str:
        """The id of the answer: the one that it has already, or ``id``."""
        return self.left.left.run.id if self.left else id

    @property
    def tenant(self) -> Tenant:
        """The owner of the request, for caches, queues and tools."""
        return self.exchange.tenant

    @property
    def may_see_reasoning(self) -> bool:
        """Whether this client may see the model's reasoning."""
        return self.context.reveals(self.exchange)

    @property
    def form(self) -> StreamForm:
        """Server-sent events, whose errors have the wire's shape; clients of these wires read until ``[DONE]``."""
        return StreamForm(self._error_event)

    def _error_event(self, error: AntiphonError) -> bytes:
        self.exchange.names.restore(error)
        return error_event(error, self.exchange.errors) + DONE

    def error_body(self, error: AntiphonError) -> bytes:
        """An error's JSON as a whole answer has it, for a stream whose last event it is."""
        self.exchange.names.restore(error)
        shape = self.exchange.errors
        return encode(shape.body(api_error(error, shape, request_id=self.exchange.id)))

    async def model(self, name: str | None) -> Model:
        """The model that the request names, or the default."""
        model = await self.context.model(name)
        self.exchange.model = model.name
        return model

    async def off_loop(self, work: Callable[[], Result], *, more: int = 0) -> Result:
        """Runs ``work`` on the request; on a long one (the body, and ``more`` bytes) beside the event loop."""
        return await self.context.large.run(work, max(len(self.body), self.exchange.size) + more)

    async def plan(
        self,
        model: Model,
        request: Callable[[], TurnRequest],
        *,
        memory: TurnMemory | None = None,
        most: int | None = None,
        more: int = 0,
    ) -> Draft:
        """The draft of `draft_turn`; ``more`` is that of `off_loop`."""
        draft = await draft_turn(model, request, partial(self.off_loop, more=more), memory=memory, most=most)
        wish, effort = draft.request, draft.request.conversation.settings.reasoning_effort
        if (effort or "none") != "none" or wish.thinking is not None or wish.thinking_token_budget is not None:
            self.note_unheard(draft)
        return draft

    def note_unheard(self, draft: Draft) -> None:
        """Notes settings of thinking that the model does not hear, by the client's names of them."""
        for name in unheard(draft.model, draft.request):
            at = RequestError(name, position=Position(path=name))
            draft.request.reword(at)
            self.exchange.names.restore(at)
            self.ignore([at.param or name])

    async def answer(
        self,
        drafts: Sequence[Draft],
        writer: Writer[Event],
        *,
        session: SessionTurn | None = None,
        tools: ServerToolUse | None = None,
        keep: Keep | None = None,
        id: str | None = None,
        began: float = 0.0,
    ) -> None:
        """Constrains the drafts, runs them when it is this request's turn and sends what ``writer`` makes of them.

        Choices are numbered draft by draft. ``session`` keeps the turn of the one draft, ``tools`` answers its calls;
        ``keep`` is awaited before a session's. ``id`` and ``began`` are the answer's; without them no stream of the
        wire can be resumed.
        Raises `RequestError` for a schema, pattern or choice that no grammar can enforce, before anything is sent.
        """
        # Plan: what may be refused is refused before anything is sent.
        check_prompts(drafts, reveals=self.may_see_reasoning, scored=self.context.limits.max_scored_tokens)
        stream = self.recorded(drafts, writer, session, id, began)
        log = stream.journal.replay_log if stream else None
        plans = [await constrain(self.as_begun(draft)) for draft in drafts]
        # Drive: the turns of all choices, or rounds of turns and tools; their results are stored.
        meter, n = self.meter(), plans[0].request.n
        sources = [self.turn(plan, meter, first_choice=i * n, log=log) for i, plan in enumerate(plans)]
        if tools is not None:
            sources = [partial(tools.steps, plans[0], meter, log=log)]
        slots = plans[0].model.engine.info.slots
        kept = in_order(keep, session.keeper(plans[0]) if session else None)
        run = self.driver(sources, at_once=slots // n, keep=kept)
        # Admit and write.
        if stream is not None:
            await self.deliver_recorded(run, writer, stream)
            return
        work = session.work if session else Work()
        async with session.admitted(self.admitted()) if session else self.admitted():
            await self.deliver(run, writer, work)

    def turn(self, plan: Plan, meter: Meter, *, first_choice: int = 0, log: ReplayLog | None = None) -> Source[Event]:
        """The one turn of ``plan``; its reply may be whole where nobody reads on the way, or limits its first token."""
        whole = not self.exchange.stream and not self.context.limits.first_token_timeout
        return partial(steps, plan, meter, first_choice=first_choice, whole=whole, log=log)

    def as_begun(self, draft: Draft) -> Draft:
        """The draft; its calls have the ids that they had where the answer was begun."""
        if self.left is None:
            return draft
        return replace(draft, request=replace(draft.request, call_key=self.left.head.call_key))

    def recorded(
        self, drafts: Sequence[Draft], writer: Writer[EventT], session: SessionTurn | None, id: str | None, began: float
    ) -> RecordedStream | None:
        """The stream as it is stored while it is made, where its client requests that. Raises `RequestError`."""
        exchange = self.exchange
        if not exchange.stream or id is None or not (self.left or resumable(exchange.headers)):
            return None
        several = len(drafts) > 1 or drafts[0].request.n > 1
        check_resumable(self.context, exchange.path, several=several, session=session is not None)
        body = encode(exchange.attached) if exchange.attached else self.body
        head = StreamHead.of(exchange, body, began, drafts[0].request.call_key)
        left = self.left.left if self.left else None
        return RecordedStream(self.context, StreamKey(KIND, exchange.owner, id), head, writer, left)

    async def deliver_recorded(self, run: Drive[EventT], writer: Writer[EventT], stream: RecordedStream) -> None:
        """Sends the stream from what is stored; it goes on where its client leaves."""
        recorder = Recorder(self.context, self.exchange, stream.run, stream.journal, stream, lasting=True)

        async def made() -> None:
            async with self.admitted():
                await run(writer.change, stream.publish)

        if self.left is not None:
            await recorder.make(made)
            return
        self.exchange.resume = f"/v1/streams/{stream.run.id}"
        try:
            await recorder.send(made, lambda write: self.stream(write, lambda: b"", writer.form, Work()))
        except AntiphonError:
            self.exchange.resume = None  # There is no stream.
            raise

    def driver(self, sources: Sequence[Source[EventT]], *, at_once: int = 1, keep: Keep | None = None) -> Drive[EventT]:
        """Runs the turns of ``sources``, ``at_once`` at a time, within the server's limits of time."""
        limits = TimeLimits(self.context.limits.first_token_timeout, self.context.limits.turn_timeout)
        return partial(drive_all, sources, at_once=at_once, limits=limits, keep=keep)

    async def deliver(self, run: Drive[EventT], writer: Writer[EventT], work: Work) -> None:
        """Sends what ``writer`` makes of the steps that ``run`` drives: each as it comes, or all of them at the end."""
        self.ignore(unrecorded(self.exchange))
        if self.exchange.stream:
            await self.stream(lambda outbox: run(writer.change, outbox.write), writer.end, writer.form, work)
        else:
            await self.context.lifecycle.run(run(writer.add, _nothing), work)
            await self.send_whole(writer)

    async def send_whole(self, writer: Writer[EventT]) -> None:
        """The answer that ``writer`` has collected."""
        await self.send_response(Response(writer.whole(), media_type=writer.media_type))

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Runs the body when it is this request's turn; all that was to be decided has been."""
        self.exchange.planned = time.perf_counter()
        async with self.context.admission.slot(self.exchange.owner):
            self.exchange.admitted = time.perf_counter()
            yield

    def meter(self) -> RequestMeter:
        """A meter of the turns of this request."""
        context, exchange = self.context, self.exchange
        return RequestMeter(
            exchange.model or "",
            context.metrics,
            self.charge,
            since=exchange.started,
            tracing=context.tracing,
            parent=exchange.headers.get("traceparent"),
            on_first=exchange.note_first,
            on_incident=exchange.note_incident,
        )

    def charge(self, *, prompt: int, completion: int = 0, cached: int | None = None) -> None:
        """Tokens of this request, which the account of its key pays for."""
        self.exchange.spent(prompt=prompt, completion=completion, cached=cached)
        self.context.rates.charge(self.exchange.owner, prompt + completion)

    async def send_json(self, value: object) -> None:
        """The answer as one body."""
        await self.send_response(Response(encode(value), media_type="application/json"))

    async def send_response(self, response: Response) -> None:
        await response(self.scope, self.receive, self.send)

    async def stream(self, write: Fill, end: Callable[[], bytes], form: StreamForm, work: Work) -> None:
        """The answer as ``write`` writes it. What goes wrong before the first event is raised, afterwards it is sent.

        ``end`` makes the last bytes of a stream that got to its end.
        """
        rules, works = self.context.rules, self.context.lifecycle.works
        limits = rules.limits
        outbox = Outbox(limits.stream_buffer, limits.keep_alive, form.keep_alive, gather=rules.gather)
        writer = asyncio.ensure_future(fill(outbox, write, end, work, self.exchange.unforeseen))
        works.add(work)
        try:
            await send_events(outbox, self.send, form)
        finally:
            works.discard(work)
            self.exchange.error = outbox.error.code if outbox.error else None
            outbox.close()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)


async def _nobody_hangs_up() -> Message:
    await asyncio.Event().wait()
    return {}


async def _nobody_listens(message: Message) -> None:
    """The answer is for those who ask for it later."""


def _nothing(written: None) -> None:
    """A whole answer is sent at its end."""


class PostRoute:
    """A route that reads a body and answers it, and stops when its client hangs up."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        exchange: Exchange = scope[KEY]
        context.traffic.requests += 1
        try:
            with context.large.room() as room:
                body = await self.body(exchange, receive, room)
                exchange.size = len(body)
                post = Post(context, exchange, body, scope, receive, send, room=room)
                await while_connected(receive, self._checked(post))
        except ClientGone:
            exchange.status = GONE
            context.traffic.clients_gone += 1

    async def body(self, exchange: Exchange, receive: Receive, room: BodyRoom) -> bytes:
        """The body, of the kind that the route reads."""
        return await read_json(exchange.headers, receive, self._context.limits, room)

    def check(self, post: Post) -> None:
        """Raises `OverloadedError` where no more work is taken now."""
        self._context.lifecycle.check()
        self._context.admission.check(post.exchange.owner)
        self._context.rates.check(post.exchange.owner)

    async def _checked(self, post: Post) -> None:
        if post.left is None:
            self.check(post)
        try:
            await self.answer(post)
        except AntiphonError as error:
            post.exchange.names.restore(error)
            model, source = post.exchange.model, self._context.source
            if error.code == UNREADABLE and error.hint == READS_TEXT and model is not None:
                sees = model in source.names and (facts := source.facts(model)) and facts.images
                more = "images in users' messages and in results" if sees else "no engine here takes more"
                error.hint = f"The model {model!r} reads text, and {more}."
            raise

    async def go_on(self, exchange: Exchange, left: AbandonedStream) -> None:
        """Makes the rest of a stream that another server left. Raises what `answer` raises before it goes on."""
        await self._checked(Post.unattended(self._context, exchange, left.head.body, left))

    async def form(self, post: Post) -> StreamForm:
        """The form of the route's streams."""
        return post.form

    async def answer(self, post: Post) -> None:
        """Answers one request. Raises `AntiphonError` for the error that is answered instead."""
        raise NotImplementedError
