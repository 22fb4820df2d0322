"""Calls that a model makes again though it has just read their results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from antiphon.conversation import Message, Role

REPEATED = "call_repeated"

_Call = tuple[str, object]


class AnsweredCalls:
    """The calls whose results a prompt ends with."""

    def __init__(self, messages: Sequence[Message]) -> None:
        newest_first = list(reversed(messages))
        results = list(takewhile(lambda message: message.role is Role.TOOL, newest_first))
        calls = takewhile(lambda message: message.is_call, newest_first[len(results) :]) if results else ()
        self._calls: list[_Call] = [_call(message) for message in calls]

    def has(self, call: Message) -> bool:
        """Whether one of them is the same call: of the same tool, with arguments of the same value."""
        return bool(self._calls) and _call(call) in self._calls


def _call(message: Message) -> _Call:
    text = str(message.text)  # One that was sampled is a text of its own kind, which the decoder does not take.
    try:
        arguments: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        arguments = text
    return message.recipient or "", arguments
