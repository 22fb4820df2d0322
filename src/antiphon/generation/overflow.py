"""A conversation that is too long for its model: the oldest turns are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from antiphon.conversation import Role
from antiphon.errors import ContextError

from .request import TurnRequest

Planned = TypeVar("Planned")


def longest(request: TurnRequest, plan: Callable[[TurnRequest], Planned]) -> Planned:
    """Plans ``request`` with as many of its turns as fit. Instructions and the last turn stay.

    Whole turns go, oldest first: a cut inside one would part a call from its answer. Raises the `ContextError` of the
    whole request where nothing fits.
    """
    try:
        return plan(request)
    except ContextError as error:
        too_long = error
    messages = request.conversation.messages
    cuts = [i for i, message in enumerate(messages) if message.role is Role.USER][1:]
    best: Planned | None = None
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        try:
            best = plan(_without(request, cuts[middle]))
            high = middle
        except ContextError:
            low = middle + 1
    if best is None:
        raise too_long
    return best


def _without(request: TurnRequest, cut: int) -> TurnRequest:
    """The request without the messages before message ``cut``."""
    messages = tuple(
        message
        for i, message in enumerate(request.conversation.messages)
        if i >= cut or message.role in (Role.SYSTEM, Role.DEVELOPER)
    )
    return replace(request, conversation=replace(request.conversation, messages=messages))
