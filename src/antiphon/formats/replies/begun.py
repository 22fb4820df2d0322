"""Where a reply stands that the prompt has begun."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from antiphon.errors import Position, UnsupportedError

from .compiled import CompiledDescription, Role


class State(Enum):
    NOTHING = auto()
    REASONING = auto()
    REASONED = auto()
    """Reasoning was closed, or is behind what the prompt said."""
    CONTENT = auto()


class Begun(msgspec.Struct, frozen=True):
    """``has_text``: a part of the answer is there. ``opened``: nothing but a mark that another one begins with."""

    state: State = State.NOTHING
    has_text: bool = False
    opened: str = ""


def begun_state(description: CompiledDescription, begun: str) -> Begun:
    """The state behind ``begun``, as `CompiledDescription.begun` finds it. `UnsupportedError` inside a call."""
    state, at = State.NOTHING, 0
    if any(mark != begun and mark.startswith(begun) for mark in description.top.literals if begun in description.roles):
        return Begun(opened=begun)
    while True:
        start, end = description.top.find(begun, at, last=True)
        if end == start:
            break
        state, at = _behind(description.roles[begun[start:end]], state), end
    text = bool(begun[at:].strip()) and state is not State.REASONING
    return Begun(State.REASONED if text and state is State.NOTHING else state, text)


def _behind(roles: set[Role], state: State) -> State:
    if Role.REASONING_CLOSE in roles and state is not State.CONTENT:
        return State.REASONED
    if Role.REASONING_OPEN in roles:
        return State.REASONING
    if Role.CONTENT_OPEN in roles:
        return State.CONTENT
    if Role.SECTION_OPEN in roles or Role.CALL_OPEN in roles:
        raise UnsupportedError("a call that was begun cannot be constrained", position=Position(path="messages"))
    return State.REASONED if Role.CONTENT_CLOSE in roles else state
