"""How much work one render of a template may do, counted in steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

CHARS_A_STEP = 64
_MAX_WIDTH = 10_000
_MAX_BITS = 4096
_MAX_DEPTH = 200
_WIDTH_METHODS = ("center", "ljust", "rjust", "zfill", "expandtabs")
_WIDE = re.compile(r"\d{5,}|\*|\{[^{}]*\{")


@dataclass(frozen=True, slots=True)
class Limits:
    """``source`` and ``output`` in characters; ``steps`` of work (a step is well under a microsecond … a few)."""

    source: int = 256_000
    output: int = 4_000_000
    steps: int = 1_000_000


class Exhausted(Exception):
    """A template exceeded the work that it may do."""


class Budget:
    """What one render may still do."""

    def __init__(self, steps: int, output: int) -> None:
        self.steps = steps
        self.output = output
        self._own: dict[int, object] = {}

    def charge(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted("the chat template does too much work")

    def chars(self, count: int) -> None:
        if count > self.output:
            raise Exhausted("the chat template makes too long a text")
        self.charge(1 + count // CHARS_A_STEP)

    def out(self, text: str) -> None:
        self.chars(len(text))
        self.output -= len(text)

    def value(self, value: object, depth: int = 0) -> None:
        """A new value with all that is in it, each time anew: so no value can outgrow the budget.

        What lies in another value can no longer be changed: it would grow without being charged for each place.
        """
        if depth > _MAX_DEPTH:
            raise Exhausted("the chat template nests values too deeply")
        if depth:
            self._own.pop(id(value), None)
        if isinstance(value, str):
            self.chars(len(value))
        elif isinstance(value, Mapping):
            self.charge(1 + len(value))
            for key, inner in value.items():
                self.value(key, depth + 1)
                self.value(inner, depth + 1)
        elif isinstance(value, (list, tuple)):
            self.charge(1 + len(value))
            for inner in value:
                self.value(inner, depth + 1)
        else:
            self.charge()

    def made(self, value: object) -> None:
        """A new value, which the template may change as long as it lies in no other."""
        self.value(value)
        if isinstance(value, (list, dict)):
            self._own[id(value)] = value

    def owns(self, value: object) -> bool:
        """Whether the template made this list or dictionary itself and has put it into no other value."""
        return self._own.get(id(value)) is value

    def each(self, values: Iterable[Any], weight: int = 1) -> Iterator[Any]:
        for value in values:
            self.charge(weight)
            yield value

    def binop(self, operator: str, left: Any, right: Any) -> None:
        """An operation whose result may be far larger than its operands."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self.chars(len(left) + len(right))
            return
        match operator, left, right:
            case _, int(), int():
                self._number(operator, left, right)
            case "*", Sized(), int():
                self._repeated(left, right)
            case "*", int(), Sized():
                self._repeated(right, left)
            case "%", str(), _:
                self.width(left)
            case "+", Sized(), Sized():
                self.chars(len(left) + len(right))
        self.charge()

    def _number(self, operator: str, left: int, right: int) -> None:
        times = max(abs(right), 1) if operator == "**" else 1
        if left.bit_length() * times + right.bit_length() > _MAX_BITS:
            raise Exhausted("the chat template makes too large a number")

    def _repeated(self, value: Sized, times: int) -> None:
        self.chars(len(value) * max(times, 0) * (1 if isinstance(value, str) else CHARS_A_STEP))

    def width(self, pattern: str) -> None:
        if _WIDE.search(pattern):
            raise Exhausted("the chat template formats too wide a text")

    def method(self, function: Any, args: Sequence[Any]) -> None:
        """Methods of strings that make a long text of a short one."""
        method = getattr(function, "__wrapped__", function)  # the sandbox wraps str.format
        text, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if not isinstance(text, str):
            return
        if name in _WIDTH_METHODS and args and isinstance(args[0], int) and args[0] > _MAX_WIDTH:
            raise Exhausted("the chat template makes too wide a text")
        if name in ("format", "format_map"):
            self.width(text)
        if name == "replace" and len(args) > 1:
            self.replace(text, args[0], args[1])
        if name == "join" and args:
            self.joined(args[0], text)

    def replace(self, text: str, old: object, new: object) -> None:
        self.chars(len(text) + text.count(str(old)) * len(str(new)))

    def joined(self, values: object, between: str) -> None:
        if isinstance(values, (list, tuple)):
            self.chars(sum(len(v) if isinstance(v, str) else 16 for v in values) + len(between) * len(values))
