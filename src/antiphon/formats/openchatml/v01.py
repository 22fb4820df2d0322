"""Reads version 0.1, the published draft: ``<|im_start|>role name=…`` turns (A-O36). All of it reads as final."""

from __future__ import annotations

import re

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import ParseError
from antiphon.errors.place import Place

from .finding import E_HEADER, E_TRUNCATED

_TURN = re.compile(r"<\|im_start\|>(\S*)(?:[ \t]+name=(\S+))?[ \t]*\r?\n")
_END = re.compile(r"\r?\n?<\|im_end\|>")
_ROLES = {role.value: role for role in (Role.SYSTEM, Role.TOOL, Role.USER, Role.ASSISTANT)}


def is_v01(text: str) -> bool:
    """Whether the text looks like a transcript of version 0.1."""
    return re.match(r"\s*(?:<s>|\[BOS\])?\s*<\|im_start\|>", text) is not None


def read_v01(text: str) -> Conversation:
    """The conversation. Raises `ParseError` with the place of what is no turn, no role, or has no end.

    The line breaks next to the markers belong to the form, not to the message; there are no escapes.
    """
    messages: list[Message] = []
    at = _blank(text, 0)
    while at < len(text):
        turn = _TURN.match(text, at)
        if turn is None:
            hint = "Version 0.1 has turns: <|im_start|>role name=NAME, the message, <|im_end|>."
            raise _error("this is no turn of version 0.1", E_HEADER, text, at, hint)
        role = _ROLES.get(turn.group(1))
        if role is None:
            hint = f"One of {', '.join(_ROLES)}."
            raise _error(f"unknown role {turn.group(1)!r}", E_HEADER, text, turn.start(1), hint)
        end = _END.search(text, turn.end())
        if end is None:
            raise _error("the text ends inside a message", E_TRUNCATED, text, len(text), "It ends with <|im_end|>.")
        messages.append(Message(role=role, text=text[turn.end() : end.start()], name=turn.group(2)))
        at = _blank(text, end.end())
    return Conversation(tuple(messages))


_BLANK = re.compile(r"(?:\s|<s>|</s>|\[BOS\]|\[EOS\])*")


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _error(message: str, code: str, text: str, at: int, hint: str) -> ParseError:
    place = Place()
    place.pass_over(text[:at])
    return ParseError(message, code=code, position=place.position(), hint=hint)
