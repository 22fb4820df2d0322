"""How much work one render of a template may do, and how much it may make, counted before it is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any

from jinja2.runtime import Undefined

CHARS_A_STEP = 64
SLOT = 16
"""Characters that a place in a list or a dictionary counts as."""
LARGEST = 10**18
"""Integers that a template computes are smaller. So their hashes differ too."""
_MADE = 4
_MAX_DEPTH = 200
_VIEWS: tuple[type[Collection[Any]], ...] = (type({}.keys()), type({}.values()), type({}.items()))
GATHERED: tuple[type[Collection[Any]], ...] = (list, tuple, *_VIEWS)
"""Values that hold others, in an order; dictionaries hold pairs of them."""
MEASURED: tuple[type[Collection[Any]], ...] = (*GATHERED, dict, range)
"""Values that hold others and have a length, but for texts."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``source`` and ``output`` in characters; ``steps`` of work, each some microseconds at most.

    ``output`` is also the length of the longest text, and a render makes four times as many characters in all.
    ``total``: steps of all renders together, of a template that one request brings; None for one that a model has.
    """

    source: int = 256_000
    output: int = 4_000_000
    steps: int = 1_000_000
    total: int | None = None


class Exhausted(Exception):
    """A template exceeded the work that it may do."""


class Budget:
    """The work and text that one render may still spend."""

    def __init__(self, steps: int, output: int) -> None:
        self.steps = steps
        self.output = output
        self.characters = _MADE * output
        self._own: dict[int, object] = {}

    def charge(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted("the chat template does too much work")

    def chars(self, count: int) -> None:
        """Pay for a text of so many characters, before it is made."""
        if count > self.output:
            raise Exhausted("the chat template makes too long a text")
        self.take(count)
        self.steps -= 1 + count // CHARS_A_STEP
        if self.steps < 0:
            raise Exhausted("the chat template does too much work")

    def read(self, count: int) -> None:
        """Pay for going through so many characters."""
        self.charge(1 + count // CHARS_A_STEP)

    def slots(self, count: int) -> None:
        """Pay for so many places of a list or a dictionary, before they are made."""
        self.take(count * SLOT)
        self.charge(1 + count)

    def take(self, characters: int) -> None:
        """Pay for memory alone."""
        self.characters -= characters
        if self.characters < 0:
            raise Exhausted("the chat template makes too much")

    def room(self, slots: int) -> None:
        """Raise `Exhausted` where so many places could not be paid; what is made of them is paid afterwards."""
        if slots * SLOT > self.characters:
            raise Exhausted("the chat template makes too much")

    def out(self, value: Any) -> str:
        """The text of a value, paid as output."""
        text = value if isinstance(value, str) else self.text(value)
        count = len(text)
        if count > self.output:
            raise Exhausted("the chat template makes too long a text")
        self.output -= count
        self.charge(1 + count // CHARS_A_STEP)
        return text

    def seen(self, value: Any) -> Any:
        """A value that is compared."""
        if type(value) is str:
            self.charge(1 + len(value) // CHARS_A_STEP)
        else:
            self.value(value)
        return value

    def value(self, value: object, depth: int = 0) -> int:
        """Pay for going through a value with all that is in it; returns the steps.

        So it is done wherever a value is put into another one, each time anew: no value can outgrow the budget. What
        lies in another value can no longer be changed: it would grow without being charged for each place.
        """
        if depth > _MAX_DEPTH:
            raise Exhausted("the chat template nests values too deeply")
        if depth:
            self._own.pop(id(value), None)
        steps = 1
        if isinstance(value, str):
            steps += len(value) // CHARS_A_STEP
            self.charge(steps)
        elif isinstance(value, dict):
            self.charge(steps + len(value))
            inner = sum(self.value(each, depth + 1) for each in chain.from_iterable(value.items()))
            steps += len(value) + inner
        elif isinstance(value, GATHERED):
            self.charge(steps + len(value))
            steps += len(value) + sum(self.value(each, depth + 1) for each in value)
        else:
            self.charge()
        return steps

    def grown(self, value: Any) -> Any:
        """A list, tuple or dictionary that was made out of values."""
        self.take(len(value) * SLOT)
        if isinstance(value, dict):
            self.keys(value)
        self.value(value)
        return value

    def made(self, value: Any) -> Any:
        """A new value, which the template may change as long as it lies in no other."""
        if isinstance(value, str):
            self.chars(len(value))
            return value
        if isinstance(value, (list, tuple, dict)):
            self.grown(value)
            self._own[id(value)] = value
        return value

    def keys(self, keys: Iterable[object]) -> None:
        """Refuse keys whose hashes anybody could make equal, so that finding one of them would mean trying all."""
        for key in keys:
            usual = isinstance(key, (str, float, type(None))) or (isinstance(key, int) and -LARGEST < key < LARGEST)
            if not usual:
                raise Exhausted("a key of a dictionary is a text or a usual number in a chat template")

    def owns(self, value: object) -> bool:
        """Whether the template made this list or dictionary itself and has put it into no other value."""
        return self._own.get(id(value)) is value

    def each(self, values: Iterable[Any], weight: int = 1, text: int = 0) -> Iterator[Any]:
        for value in values:
            self.work(weight, text)
            yield value

    def work(self, steps: int, text: int) -> None:
        """Pay for a body that is run once, with so much text of its own."""
        self.charge(steps)
        self.take(text)

    def turns(self, values: Any, weight: int, text: int) -> Any:
        """Yields a loop's items, charging each turn this weight and so much text of the template's own.

        Undefined stays, so that its own error is raised. Sized values keep their length. A list that may grow meanwhile
        is gone through as it was.
        """
        if isinstance(values, Undefined):
            return values
        if isinstance(values, str):
            self.room(len(values))
            values = list(values)
        if isinstance(values, (list, tuple, range)):
            self.charge(len(values) * weight)
            self.take(len(values) * text)
            return list(values) if self.owns(values) else values
        return self.each(values, weight, text)

    def spread(self, values: Any) -> Any:
        """Arguments that are given by `*` or `**`."""
        given = self.listed(values) if isinstance(values, Iterator) else values
        self.slots(sized(given))
        return given

    def searched(self, container: Any) -> Any:
        """Charges a search in a chain of comparisons; returns the value that is searched."""
        if isinstance(container, Iterator):
            return self.listed(container)
        if isinstance(container, str) and len(container) < 30_000:
            self.charge(1 + len(container) ** 2 // (32 * CHARS_A_STEP))
        self.charge(4 * (len(container) if isinstance(container, range) else self.value(container)))
        return container

    def listed(self, values: Iterator[Any]) -> list[Any]:
        """All that an iterator gives, each paid as it comes."""
        made = []
        for value in values:
            self.take(SLOT)
            self.value(value, 1)
            made.append(value)
        return made

    def text(self, value: Any) -> str:
        """The value as Jinja writes it. Raises `TypeError` for what is no text, number, list or dictionary."""
        if isinstance(value, str):
            return value
        self.chars(self.written(value))
        return str(value)

    def concat(self, values: Iterable[Any]) -> str:
        texts = [value if type(value) is str else self.text(value) for value in values]
        self.chars(sum(map(len, texts)))
        return "".join(texts)

    def written(self, value: Any, inside: bool = False, depth: int = 0) -> int:
        """Characters that a value is written in at most."""
        if isinstance(value, str):
            self.read(len(value))
            return len(repr(value)) if inside else len(value)
        self.charge()
        if isinstance(value, int):
            return max(value.bit_length() // 3 + 2, 5)
        if isinstance(value, (float, type(None), Undefined, range)):
            return max(len(repr(value)), 9)
        if isinstance(value, MEASURED):
            if depth > _MAX_DEPTH:
                raise Exhausted("the chat template nests values too deeply")
            inner = chain.from_iterable(value.items()) if isinstance(value, dict) else value
            return 14 + sum(2 + self.written(each, True, depth + 1) for each in inner)
        raise TypeError(f"a {type(value).__name__} cannot be written")

    def number(self, value: Any) -> Any:
        """A number that was computed. Raises `Exhausted` where it has too many digits."""
        if isinstance(value, int) and not -LARGEST < value < LARGEST:
            raise Exhausted("the chat template makes too large a number")
        if isinstance(value, complex):
            raise TypeError("a complex number is of no use here")
        return value


def sized(value: object) -> int:
    """The length of what has one; 0 of all else."""
    return len(value) if isinstance(value, Sized) and not isinstance(value, Undefined) else 0
