"""A request as its model's template knows it: a budget of thought is an argument too, and idle arguments are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from antiphon.conversation import Message, ReasoningEffort, Role, Settings
from antiphon.errors import ContextError, Position, UnsupportedError

from .model import Model
from .request import TurnRequest

EFFORTS = ((1, ReasoningEffort.NONE), (2048, ReasoningEffort.LOW), (8192, ReasoningEffort.MEDIUM))
"""The effort that a budget below so many tokens is to a model whose thoughts nothing can bound; high beyond them."""


def normalized(model: Model, request: TurnRequest) -> TurnRequest:
    """The request with its settings as the template takes them, without arguments that it does not know and that ask
    for nothing, as false and null do: what is to be off is not there at all.

    Many clients send ``enable_thinking: false`` to every model.
    Raises `UnsupportedError` for a budget of thought that nothing can hold.
    """
    settings = request.conversation.settings
    taken, known = _with_budget(model, request, settings), (request.raw or model.format).arguments
    given = taken.template_kwargs
    kept = {key: value for key, value in given.items() if key in known or not (value is None or value is False)}
    taken = taken if len(kept) == len(given) else replace(taken, template_kwargs=kept)
    return (
        request if taken == settings else replace(request, conversation=replace(request.conversation, settings=taken))
    )


def _with_budget(model: Model, request: TurnRequest, settings: Settings) -> Settings:
    """Without a thought, thinking is off for the template too; without a grammar, a budget is an effort."""
    budget = request.thinking_token_budget
    if budget is None or budget < 0:
        return settings
    arguments, effort = settings.template_kwargs, settings.reasoning_effort
    bounded = model.reply_compiler is not None and not request.ignore_eos
    named = effort or arguments.get("reasoning_effort")
    if not bounded and named not in (None, ReasoningEffort.NONE):
        raise UnsupportedError(
            "thinking_token_budget cannot be held here: no grammar bounds the thought, and its effort is named",
            position=Position(path="thinking_token_budget"),
            hint="Send one of thinking_token_budget and reasoning_effort.",
        )
    if budget == 0:
        arguments = {"enable_thinking": False, **arguments}
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
