"""Constrained replies, fail-closed: compiled before admission, followed id by id, checked when whole."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace as replace_in

from antiphon.conversation import End, Incident, Message, ResponseFormat, Role, visible_to_user
from antiphon.engines import EngineEnd, PlacedImage, Step
from antiphon.errors import EngineError, Position, RequestError, UnsupportedError
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.grammar import ReplyShape
from antiphon.grammar.limits import UNJUDGED

from .call_ids import CALLS, free_ids
from .departure import GrammarViolation, too_costly
from .images import prompt_tokens
from .model import Model
from .plan import Draft, Plan, plan_shorter, plan_turn
from .request import Overflow, TurnRequest

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar
    from antiphon.grammar.following import Matcher


# A constrained reply that is whole at its limit: the shortest ending is taken while it still fits.

UNKNOWN = 512
"""How long an ending is taken to be that the search does not find."""
FAR = 2 * UNKNOWN
"""While so many ids are left, none is looked for."""
CHARACTERS_A_TOKEN = 4
"""Grammars bound thoughts in characters: so many stand for one token of a budget."""


class WholeAtLimit:
    """Follows one choice of at most ``most`` ids, and knows an ending of it at each of them.

    The first id after which no ending would fit any more is not taken: the ending before it is, in its place. A reply
    of which none is found for long is cut, as it would be without.
    """

    def __init__(self, compiled: CompiledGrammar, most: int, ending: tuple[int, ...]) -> None:
        """``ending`` is one from the reply's beginning."""
        self._compiled = compiled
        self._matcher = compiled.matcher()
        self._left = most
        self._ending: tuple[int, ...] | None = ending
        self.ended = False
        """The ending was taken: the reply is whole, and the limit is why it ended."""

    def fitted(self, step: Step) -> Step:
        """The step as it may be read: whole, or up to where the ending is taken."""
        taken: list[int] = []
        for id in step.ids:
            if not self._take(id):
                self.ended = True
                ids = (*taken, *(self._ending or ()))
                return msgspec.structs.replace(step, ids=ids, logprobs=(), end=EngineEnd.LENGTH_OUTPUT)
            taken.append(id)
        return step

    def _take(self, id: int) -> bool:
        """Whether an ending fits behind the id. One that the grammar does not allow is for others to refuse."""
        after = self._matcher.copy()
        if after.consume([id]) is not None:
            return True
        ending = self._after(id, after)
        if self._ending is not None and (UNKNOWN if ending is None else len(ending)) > self._left - 1:
            return False
        self._matcher, self._ending, self._left = after, ending, self._left - 1
        return True

    def _after(self, id: int, after: Matcher) -> tuple[int, ...] | None:
        """An ending behind the id: the rest of the last one, the last one again, or another."""
        if self._left > FAR:
            return None
        last = self._ending
        if last and last[0] == id:
            return last[1:]
        if last is not None and not after.accepting:
            again = after.copy()
            if again.consume(last) is None and again.accepting:
                return last
        return self._compiled.ending(after, max(0, self._left - 1))


# What the masks of a constrained reply cost: the engine computes one for every token, and its other replies wait.

EVERY = 16
"""Ids from one look to the next."""
LOOKS = 4
"""How many looks in a row make a mean."""


class MaskBudget:
    """Computes a mask now and then, as the engine does at each token, and ends replies whose masks take too long."""

    def __init__(self, most: float, clock: Callable[[], float] = time.thread_time, *, path: str | None = None) -> None:
        """``most`` are seconds of processor time for one mask, in the mean of `LOOKS`.

        ``path`` is of what the request constrains the reply by.
        """
        self._most = most
        self._path = path
        self._clock = clock
        self._next = EVERY
        self._spent: list[float] = []

    def look(self, matcher: Matcher) -> None:
        """Once every so many ids. Raises `RequestError` (``invalid_grammar``)."""
        if matcher.position < self._next or matcher.stopped:
            return
        self._next = matcher.position + EVERY
        began = self._clock()
        matcher.mask()
        self._spent = [*self._spent, self._clock() - began][-LOOKS:]
        if matcher.failed or (len(self._spent) == LOOKS and sum(self._spent) > LOOKS * self._most):
            raise too_costly(matcher.position, self._path)


log = logging.getLogger("antiphon.generation")


async def prepare_turn(model: Model, request: TurnRequest, *, most: int | None = None, off_loop: bool = False) -> Plan:
    """Plans a turn: the prompt and the sampling of ``request``, and the grammar that its reply must follow.

    ``off_loop``: a long prompt is rendered and encoded in a thread, beside the event loop.

    Raises what `plan_turn` raises, and `RequestError` for a schema, pattern or choice that no grammar can enforce.
    """
    draft = partial(plan_turn, model, request, most=most)
    return await constrain(await asyncio.to_thread(draft) if off_loop else draft())


async def constrain(draft: Draft) -> Plan:
    """The draft with the grammar of its reply, where one is required or the format is framed, and the engine takes it.

    Raises `RequestError` for a schema, pattern or choice that no grammar can enforce, and for what is no image.
    """
    try:
        images = draft.images
        if images:
            images = await draft.model.images.checked(images, draft.request.tenant.domain())
            draft, images = await _fitting(draft, images)
        constraint = await _compiled(draft)
        if constraint is not None and draft.sampling.min_tokens:
            raise UnsupportedError(
                "min_tokens cannot be honoured: the reply is whole where its grammar says so",
                position=Position(path="min_tokens"),
                hint="Leave it out, or the tools and the format of the answer.",
            )
        held = await _held(draft) if constraint is not None else None
        ending = await _ending(draft, constraint)
    except RequestError as error:
        draft.request.reword(error)
        raise
    return Plan(
        draft.model,
        draft.request,
        draft.prompt,
        draft.prompt_ids,
        draft.sampling,
        constraint,
        ending,
        held,
        prefix=draft.prefix,
        incidents=draft.incidents,
        images=images,
    )


async def tokens_of(draft: Draft) -> int:
    """Counts the tokens of a prompt with those of its images, where the engine counts them.

    Raises `RequestError` at an image that is none.
    """
    images = await draft.model.images.checked(draft.images, draft.request.tenant.domain())
    return await prompt_tokens(draft.model.engine, draft.prompt_ids, images)


async def _fitting(draft: Draft, images: tuple[PlacedImage, ...]) -> tuple[Draft, tuple[PlacedImage, ...]]:
    """Leaves out more of a history that may be left out, where it is too long with what the engine makes of images."""
    engine, ids = draft.model.engine, draft.prompt_ids
    if draft.request.overflow is not Overflow.DROP_OLDEST:
        return draft, images
    if await prompt_tokens(engine, ids, images) < draft.model.context:
        return draft, images
    marks = [(ids[image.start : image.stop], image.data) for image in images]
    alone = [await prompt_tokens(engine, mark, [PlacedImage(0, len(mark), data)]) - len(mark) for mark, data in marks]
    shorter = await asyncio.to_thread(plan_shorter, draft, alone)
    seen = images[len(images) - len(shorter.images) :]
    return shorter, tuple([replace_in(at, data=one.data) for at, one in zip(shorter.images, seen, strict=True)])


async def _held(draft: Draft) -> CompiledGrammar | None:
    """The grammar without calls in other forms that would be read as text; None where they need no bar."""
    tools, choice = draft.request.conversation.callable, draft.request.tool_choice
    if choice.mode != "auto" or not isinstance(draft.format, ReplyFormat):
        return None
    shape = replace(shape_of(draft), held=True)
    if not shape.other_calls and not any(tool.strict for tool in tools):
        return None
    try:
        return await _compiled(draft, shape)
    except RequestError:
        return None  # It is larger than the grammar of the reply, which has compiled.


async def _compiled(draft: Draft, shape: ReplyShape | None = None) -> CompiledGrammar | None:
    compiler = draft.model.reply_compiler
    if compiler is None or not _needs_grammar(draft):
        return None
    messages = draft.request.conversation.messages
    continues = bool(messages) and messages[-1].role is Role.ASSISTANT and messages[-1].end is End.NONE
    return await compiler.compile(
        shape or shape_of(draft),
        draft.prompt,
        continues=continues,
        domain=draft.request.tenant.domain(),
        raw=draft.request.raw,
    )


async def _ending(draft: Draft, compiled: CompiledGrammar | None) -> tuple[int, ...] | None:
    if draft.request.finish is None or compiled is None:
        return None
    return await asyncio.to_thread(_shortest, draft, compiled)


def _shortest(draft: Draft, compiled: CompiledGrammar) -> tuple[int, ...]:
    """The shortest whole reply. Raises `RequestError` where it does not fit into the limit."""
    most = draft.sampling.max_tokens
    ending = compiled.ending(compiled.matcher(), most)
    if ending is None:
        raise RequestError(
            f"max_tokens is {most}, and no whole answer was found that is so short",
            code="invalid_value",
            position=Position(path="max_tokens"),
            hint="Allow more tokens, or leave out finish.",
        )
    return ending


def shape_of(draft: Draft) -> ReplyShape:
    """The shape that the request requires of its reply."""
    request = draft.request
    conversation = request.conversation
    bounds = (_budget(draft), draft.model.thinking_budget)
    most = min((bound for bound in bounds if bound is not None), default=None)
    return ReplyShape(
        tools=conversation.callable,
        builtins=conversation.builtins,
        tool_choice=request.tool_choice,
        parallel=not request.one_call,
        response_format=conversation.response_format or ResponseFormat(),
        call_ids=tuple(islice(free_ids(request), CALLS)),
        reasoning="off" if most == 0 else "optional",
        max_reasoning=most,
        other_calls=bool(draft.model.called_in_any_form(request)),
    )


def _budget(draft: Draft) -> int | None:
    """The characters that a thought may have by the request; None where its limit in tokens ends it before."""
    budget = draft.request.thinking_token_budget
    if budget is None or not 0 <= budget < draft.sampling.max_tokens:
        return None
    return budget * CHARACTERS_A_TOKEN


def _needs_grammar(draft: Draft) -> bool:
    """Whether a grammar must hold the reply.

    * It has a form, or a call is required.
    * Its thoughts have a bound.
    * Tools are offered, or none may be called.
    * The model reads of earlier calls: it goes on to call, also where it is offered nothing any more.
    * Its format is framed.
    """
    request = draft.request
    if request.requires_grammar:
        return True
    if request.ignore_eos or request.raw is not None:
        return False
    conversation = request.conversation
    if _budget(draft) is not None and draft.model.facts.reasoning:
        return True
    called = not request.any_call and any(message.is_call for message in conversation.messages)
    return bool(conversation.offered) or called or request.tool_choice.mode == "none" or draft.format.framed


def guard_of(plan: Plan) -> ReplyGuard | None:
    """A new guard for one choice of a constrained plan; None where the reply is free."""
    return None if plan.constraint is None else ReplyGuard(plan.constraint, plan)


class ReplyGuard:
    """Follows one choice of a constrained plan. An engine that leaves the grammar is caught at its first wrong id."""

    def __init__(self, compiled: CompiledGrammar, plan: Plan) -> None:
        self._compiled = compiled
        self._matcher = compiled.matcher()
        self._shape = shape_of(plan)
        self._watch = MaskBudget(compiled.mask_seconds, path=self._constrained_by)
        self._ids: list[int] = []
        self._reword = plan.request.reword
        ending = plan.ending
        self.finisher = None if ending is None else WholeAtLimit(compiled, plan.sampling.max_tokens, ending)
        """Ends the reply at its limit, where the request says that it is to be whole there."""

    def follow(self, ids: Sequence[int]) -> None:
        """Raises `GrammarViolation` at the first id that the grammar does not allow; it knows the error to raise.

        Raises `RequestError` where the grammar's masks take too long.
        """
        violation = self._matcher.consume(ids)
        if violation is not None:
            raise self._left([*self._ids, *ids], violation.position, violation.reason)
        self._ids += ids
        try:
            self._watch.look(self._matcher)
        except RequestError as error:
            self._reword(error)
            raise

    def _left(self, ids: Sequence[int], place: int, reason: str) -> GrammarViolation:
        log.warning("the reply left its grammar at token %d: %s", place, reason)
        return GrammarViolation(self._compiled, ids, place, self._constrained_by, self._reword)

    @property
    def _constrained_by(self) -> str | None:
        if self._shape.response_format.kind != "text":
            return self._shape.format_param
        return self._shape.tools_param if self._shape.tools else None

    def finish(self) -> None:
        """The engine says that the reply is whole. Raises `GrammarViolation` where it is not."""
        if not self._matcher.accepting:
            raise self._left(self._ids, len(self._ids), "it ended before its grammar did")

    def faults(self, messages: Sequence[Message]) -> list[Incident]:
        """Incidents for what finished values lack and no grammar enforces. Raises `EngineError` for a strict value."""
        found: list[Incident] = []
        for message in messages:
            path, strict = self._place(message)
            schema = self._compiled.schemas.get(path) if path else None
            fault = schema.fault(message.text) if schema is not None else None
            if fault == UNJUDGED and schema is not None and not schema.relaxed:
                fault = None  # The grammar enforced all of it.
            if fault is not None and strict:
                raise EngineError(
                    f"the reply is not what {path} requires: {fault}", code="grammar_broken", hint="Try again."
                )
            if fault is not None:
                found.append(Incident("schema_violation", self._matcher.position, fault))
        return found

    def _place(self, message: Message) -> tuple[str | None, bool]:
        """The path of the schema that a message answers to, and whether it is strict."""
        if message.end is End.NONE:
            return None, False
        if message.is_call:
            tools = self._shape.tools
            index = next((i for i, tool in enumerate(tools) if tool.recipient == message.recipient), None)
            return (
                (f"tools[{index}].function.parameters", tools[index].strict is True)
                if index is not None
                else (None, False)
            )
        format = self._shape.response_format
        if not visible_to_user(message) or message.is_preamble:
            return None, False
        path = {"json_object": "response_format", "json_schema": "response_format.json_schema.schema"}.get(format.kind)
        return path, format.strict is True
