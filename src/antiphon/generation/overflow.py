"""A conversation that is too long for its model: the oldest turns, and then the oldest calls, are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from antiphon.conversation import Message, Role
from antiphon.errors import ContextError

from .request import TurnRequest

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
