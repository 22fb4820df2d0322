"""How sure a model was of the calls that it wrote in another form than the one it was trained on.

Small models that are offered tools write calls in reply to greetings, too. What tells such a call from one that is
meant are the model's own probabilities: of the tool's name, and of what the required arguments begin with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from antiphon.conversation import Message, Role
from antiphon.formats.other_calls.offered import FoundCall
from antiphon.tokens import utf8

SURE = 0.4
"""The least of a call's name, squared, times the mean of what its required arguments begin with. Seen with
Qwen2.5-Coder 1.5B and 0.5B: of 100 right calls that a user requested 97 have it and 100 have 0.3; of the calls in reply
to 94 greetings and other questions, 12 have it and 15 have 0.3."""
PREFERRED = 0.5
"""The least probability of the name of a further call where calls are required. Seen with Qwen2.5-Coder-1.5B: the
second and third call that a question wants have 0.98 and more, those behind the last one 0.28 to 0.39."""
UNSURE = "further_call_unsure"

_BEFORE_VALUE = rb"""\\?["']?\s*[:=>][\s"'\\>]*"""

_UNKNOWN = -100.0
"""The least log probability that is known: engines report less of an id whose probability they do not know."""


class Confidence:
    """The ids of one reply with the model's own log probability of each."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._logprobs: list[float] = []

    def add(self, data: bytes, logprob: float) -> None:
        self._parts.append(data)
        self._logprobs.append(logprob if logprob > _UNKNOWN else 0.0)

    def prefers(self, name: str) -> bool:
        """Whether the name that the reply has just said is more probable than all others together; unknown is."""
        reply = b"".join(self._parts)
        at = reply.rfind(utf8(name))
        return at < 0 or self._least(at, at + len(utf8(name))) >= PREFERRED

    def sure(self, text: str, calls: Sequence[FoundCall]) -> bool:
        """Whether it was sure of each of the calls that ``text``, the end of the reply, is; unknown is sure."""
        reply = b"".join(self._parts)
        at = reply.rfind(utf8(text))
        if at < 0:
            return True
        for call in calls:
            at = reply.find(utf8(call.tool.name), at)
            end = at + len(utf8(call.tool.name))
            if at < 0:
                return True
            if self._least(at, end) ** 2 * self._of_arguments(reply, end, call) < SURE:
                return False
            at = end
        return True

    def _of_arguments(self, reply: bytes, start: int, call: FoundCall) -> float:
        """The mean of the probabilities of what the required arguments begin with; 1 without any."""
        places = [place for key in _required(call) if (place := _value_at(reply, start, key)) is not None]
        return sum(self._least(place, place + 1) for place in places) / len(places) if places else 1.0

    def _least(self, start: int, end: int) -> float:
        """The joint probability of the ids of which the bytes from ``start`` to ``end`` are."""
        total, at = 0.0, 0
        for part, logprob in zip(self._parts, self._logprobs, strict=True):
            if at < end and at + len(part) > start:
                total += logprob
            at += len(part)
        return math.exp(total)


def _required(call: FoundCall) -> list[str]:
    node = call.tool.parameters if isinstance(call.tool.parameters, dict) else {}
    required = node.get("required")
    return [key for key in required if isinstance(key, str)] if isinstance(required, list) else []


def _value_at(reply: bytes, start: int, key: str) -> int | None:
    """The start of an argument's value: behind its key, an assignment or a colon, and an opening quote."""
    found = re.compile(rb"(?<!\w)" + re.escape(utf8(key)) + _BEFORE_VALUE).search(reply, start)
    return found.end() if found is not None and found.end() < len(reply) else None


# Calls that a model makes again though it has just read their results.

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
