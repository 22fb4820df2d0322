"""A request as its model's template knows it: a budget of thought is an argument too, and idle arguments are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from antiphon.conversation import Message, ReasoningEffort, Role, Settings
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.formats.format import EffortFormat
from antiphon.formats.replies.probe import SWITCHES

from .images import PARTS, as_seen
from .model import Model
from .request import TurnRequest

EFFORTS = ((1, ReasoningEffort.NONE), (2048, ReasoningEffort.LOW), (8192, ReasoningEffort.MEDIUM))
"""The effort that a budget below so many tokens is to a model whose thoughts nothing can bound; high beyond them."""


def normalized(model: Model, request: TurnRequest) -> TurnRequest:
    """The request with its settings as the template takes them, without arguments that it does not know and that ask
    for nothing, as false and null do: what is to be off is not there at all.

    Many clients send ``enable_thinking: false`` to every model.
    Raises `UnsupportedError` for a budget of thought that nothing can hold, and where the model cannot think, or cannot
    but think, as is requested.
    """
    if any(map(PARTS, request.conversation.messages)):
        request = as_seen(request, seen=bool(model.image_mark) and request.raw is None)
    settings = request.conversation.settings
    if request.thinking is not None or settings.reasoning_effort is not None:
        request = _with_thinking(model, request)
        settings = request.conversation.settings
    taken, known = _with_budget(model, request, settings), (request.raw or model.format).arguments
    given = taken.template_kwargs
    kept = {key: value for key, value in given.items() if key in known or not (value is None or value is False)}
    taken = taken if len(kept) == len(given) else replace(taken, template_kwargs=kept)
    return (
        request if taken == settings else replace(request, conversation=replace(request.conversation, settings=taken))
    )


def _with_thinking(model: Model, request: TurnRequest) -> TurnRequest:
    """Thinking that is on or off in this model's words: its template's switch, an effort, or no room for a thought."""
    conversation, known, on = request.conversation, (request.raw or model.format).arguments, request.thinking
    settings = conversation.settings
    switched = settings.reasoning_effort != ReasoningEffort.NONE if on is None else on
    switches = {name: switched for name in SWITCHES if name in known}
    if on is None:
        return _switched(request, switches)
    named = settings.reasoning_effort or settings.template_kwargs.get("reasoning_effort")
    contrary = [name for name in switches if settings.template_kwargs.get(name, on) is not on]
    contrary += ["reasoning_effort"] if named is not None and on is (named == ReasoningEffort.NONE) else []
    contrary += ["thinking_token_budget"] if on and request.thinking_token_budget == 0 else []
    if contrary:
        path = "reasoning_effort" if settings.reasoning_effort == ReasoningEffort.NONE and not on else "enable_thinking"
        raise RequestError(
            f"{path}: it says the contrary of {contrary[0]}",
            code="invalid_value",
            position=Position(path=path),
            hint="Send one of them.",
        )
    if not (switches or model.facts.reasoning):
        if on:
            raise _unable("this model does not think", "Leave it out.")
        return request
    if not (on or switches):
        if _bounded(model, request):
            return replace(request, thinking_token_budget=0)
        if "reasoning_effort" not in known and settings.reasoning_effort is None:
            raise _unable("this model always thinks: its template has no switch", "A budget needs a grammar.")
    effort = ReasoningEffort.NONE if not on and named is None and "reasoning_effort" in known else None
    if effort is not None:
        conversation = replace(conversation, settings=replace(settings, reasoning_effort=effort))
    return _switched(replace(request, conversation=conversation), switches)


def hears_effort(model: Model, effort: str | None = None) -> bool:
    """Whether ``effort`` changes the model's prompts, as it is and not as another; None: whether any does."""
    format = model.format
    if format.framed or "reasoning_effort" in format.arguments:
        return effort is None or not isinstance(format, EffortFormat) or effort in format.efforts
    return not {*SWITCHES}.isdisjoint(format.arguments)


def unheard(model: Model, request: TurnRequest) -> Iterator[str]:
    """Yields the names of settings of thinking that nothing in this model hears, or not as they are.

    Clients send an effort to every model, so it is not refused.
    """
    effort, budget = request.conversation.settings.reasoning_effort, request.thinking_token_budget
    bounded, off = _bounded(model, request), request.thinking is False or budget == 0
    if budget is not None and budget > 0 and not model.facts.reasoning:
        yield "thinking_token_budget"
    if effort is None or hears_effort(model, effort):
        return
    if effort != ReasoningEffort.NONE or (off and not bounded and model.facts.reasoning):
        yield "reasoning_effort" if bounded or budget is None or budget < 0 else "thinking_token_budget"


def _switched(request: TurnRequest, switches: Mapping[str, bool]) -> TurnRequest:
    """The request with arguments of the template, unless it has them itself."""
    conversation, settings = request.conversation, request.conversation.settings
    settings = replace(settings, template_kwargs={**switches, **settings.template_kwargs})
    return replace(request, conversation=replace(conversation, settings=settings)) if switches else request


def _unable(reason: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"enable_thinking: {reason}", position=Position(path="enable_thinking"), hint=hint)


def _bounded(model: Model, request: TurnRequest) -> bool:
    """Whether a grammar can end a thought."""
    return model.reply_compiler is not None and not request.ignore_eos


def _with_budget(model: Model, request: TurnRequest, settings: Settings) -> Settings:
    """Without a thought, thinking is off for the template too; without a grammar, a budget is an effort."""
    budget = request.thinking_token_budget
    if budget is None or budget < 0:
        return settings
    arguments, effort = settings.template_kwargs, settings.reasoning_effort
    bounded = _bounded(model, request)
    named = effort or arguments.get("reasoning_effort")
    if not bounded and named not in (None, ReasoningEffort.NONE):
        raise UnsupportedError(
            "thinking_token_budget cannot be held here: no grammar bounds the thought, and its effort is named",
            position=Position(path="thinking_token_budget"),
            hint="Send one of thinking_token_budget and reasoning_effort.",
        )
    if budget == 0:
        arguments = {**dict.fromkeys(SWITCHES, False), **arguments}
    if named is None and (budget == 0 or not bounded):
        effort = next((effort for below, effort in EFFORTS if budget < below), ReasoningEffort.HIGH)
    return replace(settings, reasoning_effort=effort, template_kwargs=arguments)


# A conversation that is too long for its model: the oldest turns, and then the oldest calls, are left out.

Planned = TypeVar("Planned")


def longest(request: TurnRequest, plan: Callable[[TurnRequest], Planned]) -> Planned:
    """Plans ``request`` with as much of its history as fits. Instructions and the last question stay.

    Whole turns go, oldest first, and then calls of the last turn with their reasons and results: a cut elsewhere would
    part a call from its answer. The calls that were answered last stay. Raises the `ContextError` of the whole request
    where nothing fits.
    """
    try:
        return plan(request)
    except ContextError as error:
        too_long = error
    messages = request.conversation.messages
    question = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=-1)
    cuts = [*_cuts(messages, question)]
    best: Planned | None = None
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        try:
            best = plan(_without(request, cuts[middle], question))
            high = middle
        except ContextError:
            low = middle + 1
    if best is None:
        raise too_long
    return best


def _cuts(messages: Sequence[Message], question: int) -> Iterator[int]:
    """The numbers of the messages before which all may go, the first ones first.

    They are questions; and of the turn of the last ``question`` what follows results, where no earlier call is answered
    later.
    """
    answers: dict[str | None, int] = {
        message.call_id: i for i, message in enumerate(messages) if message.role is Role.TOOL and message.call_id
    }
    parted = 0
    for i, (message, follower) in enumerate(pairwise(messages), 1):
        if message.is_call:
            parted = max(parted, answers.get(message.call_id, 0))
        behind_results = message.role is Role.TOOL and follower.role is Role.ASSISTANT and max(question, parted) < i
        if follower.role is Role.USER or behind_results:
            yield i


def _without(request: TurnRequest, cut: int, question: int) -> TurnRequest:
    """The request without the messages before message ``cut``."""
    messages = tuple(
        message
        for i, message in enumerate(request.conversation.messages)
        if i >= cut or i == question or message.role in (Role.SYSTEM, Role.DEVELOPER)
    )
    return replace(request, conversation=replace(request.conversation, messages=messages))
