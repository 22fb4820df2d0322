"""Every method that a template may call, with its price: a function of the same parameters that pays beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jinja2.runtime import LoopContext, Macro
from jinja2.utils import Cycler, Joiner

from .budget import Budget, Exhausted, sized
from .operators import search

Price = Callable[..., None]
"""Takes the render's budget and then what the priced thing takes, by the same names."""
_WIDEST = 10_000
_UPPER = 3
"""Characters that one becomes at most in another case: ΐ."""


def in_case(budget: Budget, text: str) -> None:
    budget.chars(len(text) if text.isascii() else _UPPER * len(text))


def replaced(budget: Budget, text: str, old: str, new: str, count: int = -1) -> None:
    search(budget, text, old)
    times = text.count(old) if isinstance(count, int) and count < 0 else min(text.count(old), count)
    budget.room(times)
    budget.chars(len(text) + times * max(len(new) - len(old), 0))


def stripped(budget: Budget, text: str, chars: str | None = None) -> None:
    """Each character at an end is looked for among all that are to go."""
    budget.chars(len(text))
    if chars is not None:
        budget.read(len(text) * len(chars) // 8)


def joined(budget: Budget, between: str, values: Any) -> None:
    """Pay for texts with another text between them; a list, or whatever else has a length."""
    texts = [value for value in values if isinstance(value, str)]
    budget.slots(sized(values))
    budget.chars(sum(map(len, texts)) + len(between) * max(sized(values) - 1, 0))


def padded(budget: Budget, text: str, width: int, fill: str = " ") -> None:
    if width > _WIDEST:
        raise Exhausted("the chat template makes too wide a text")
    budget.chars(max(len(text), width))


def _reads(budget: Budget, text: str) -> None:
    budget.read(len(text))


def _tabs(budget: Budget, text: str, tabsize: int = 8) -> None:
    if tabsize > _WIDEST:
        raise Exhausted("the chat template makes too wide a text")
    budget.chars(len(text) + text.count("\t") * max(tabsize, 0))


def _found(budget: Budget, text: str, part: str, *bounds: int) -> None:
    search(budget, text, part)


def _found_backwards(budget: Budget, text: str, part: str, *bounds: int) -> None:
    search(budget, text, part, backwards=True)


def _begins(budget: Budget, text: str, part: str | tuple[str, ...], *bounds: int) -> None:
    budget.value(part)


def _affixed(budget: Budget, text: str, affix: str) -> None:
    budget.chars(len(text))


def _split(budget: Budget, text: str, sep: str | None = None, maxsplit: int = -1) -> None:
    _cut(budget, text, sep, maxsplit, backwards=False)


def _split_backwards(budget: Budget, text: str, sep: str | None = None, maxsplit: int = -1) -> None:
    _cut(budget, text, sep, maxsplit, backwards=True)


def _cut(budget: Budget, text: str, sep: str | None, maxsplit: int, *, backwards: bool) -> None:
    """Pay for the pieces' characters; their places are paid when they are there, and there must be room."""
    budget.chars(len(text))
    pieces = len(text) // 2 + 1
    if sep:
        search(budget, text, sep, backwards=backwards)
        pieces = text.count(sep) + 1
    budget.room(min(pieces, maxsplit + 1) if maxsplit >= 0 else pieces)


def _lines(budget: Budget, text: str, keepends: bool = False) -> None:
    budget.chars(len(text))
    budget.room(sum(map(text.count, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")) + 1)


def _parted(budget: Budget, text: str, sep: str) -> None:
    budget.chars(len(text))
    search(budget, text, sep)


def _parted_backwards(budget: Budget, text: str, sep: str) -> None:
    budget.chars(len(text))
    search(budget, text, sep, backwards=True)


def _formatted(budget: Budget, text: str, *args: Any, **kwargs: Any) -> None:
    """Each field is paid as it is written: see `PricedFormatter`."""


def _moves(budget: Budget, values: list[Any], *args: Any) -> None:
    budget.charge(1 + len(values) // 8)


def _added(budget: Budget, values: list[Any], value: Any) -> None:
    budget.take(16)


def _inserted(budget: Budget, values: list[Any], index: int, value: Any) -> None:
    budget.take(16)
    _moves(budget, values)


def _extended(budget: Budget, values: list[Any], more: Any) -> None:
    budget.slots(sized(more))


def _compares(budget: Budget, values: Any, value: Any, *bounds: int) -> None:
    budget.charge((1 + len(values)) * budget.value(value))


def _whole(budget: Budget, values: Any) -> None:
    budget.slots(len(values))


def _view(budget: Budget, values: dict[Any, Any]) -> None:
    """Views are made without going through the dictionary."""


def _looked_up(budget: Budget, values: dict[Any, Any], key: Any, default: Any = None) -> None:
    budget.value(key)


def _set(budget: Budget, values: dict[Any, Any], key: Any, default: Any = None) -> None:
    budget.slots(1)
    budget.keys((key,))


def _updated(budget: Budget, values: dict[Any, Any], more: Any = (), /, **pairs: Any) -> None:
    budget.slots(sized(more) + len(pairs))
    budget.keys(more if isinstance(more, dict) else [next(iter(pair), None) for pair in more])


def _remembered(budget: Budget, of: Any, *values: Any) -> None:
    """Pay for values that are compared with those of the last time, or for taking one of them."""
    for value in values:
        budget.value(value)


METHODS: dict[type, dict[str, Price]] = {
    str: {
        "capitalize": in_case,
        "casefold": in_case,
        "center": padded,
        "count": _found,
        "endswith": _begins,
        "expandtabs": _tabs,
        "find": _found,
        "format": _formatted,
        "format_map": _formatted,
        "index": _found,
        "isalnum": _reads,
        "isalpha": _reads,
        "isascii": _reads,
        "isdecimal": _reads,
        "isdigit": _reads,
        "islower": _reads,
        "isnumeric": _reads,
        "isprintable": _reads,
        "isspace": _reads,
        "istitle": _reads,
        "isupper": _reads,
        "join": joined,
        "ljust": padded,
        "lower": in_case,
        "lstrip": stripped,
        "partition": _parted,
        "removeprefix": _affixed,
        "removesuffix": _affixed,
        "replace": replaced,
        "rfind": _found_backwards,
        "rindex": _found_backwards,
        "rjust": padded,
        "rpartition": _parted_backwards,
        "rsplit": _split_backwards,
        "rstrip": stripped,
        "split": _split,
        "splitlines": _lines,
        "startswith": _begins,
        "strip": stripped,
        "swapcase": in_case,
        "title": in_case,
        "upper": in_case,
        "zfill": padded,
    },
    list: {
        "append": _added,
        "clear": _moves,
        "copy": _whole,
        "count": _compares,
        "extend": _extended,
        "index": _compares,
        "insert": _inserted,
        "pop": _moves,
        "remove": _compares,
        "reverse": _moves,
    },
    tuple: {"count": _compares, "index": _compares},
    dict: {
        "clear": _whole,
        "copy": _whole,
        "get": _looked_up,
        "items": _view,
        "keys": _view,
        "pop": _looked_up,
        "setdefault": _set,
        "update": _updated,
        "values": _view,
    },
    LoopContext: {"changed": _remembered, "cycle": _remembered},
    Cycler: {"next": _remembered, "reset": _remembered},
    Joiner: {},
}
"""The price of a method by its type and name."""
CHANGES: dict[type, tuple[str, ...]] = {
    list: ("append", "clear", "extend", "insert", "pop", "remove", "reverse"),
    dict: ("clear", "pop", "setdefault", "update"),
}
"""Methods that a template may call on a list or a dictionary of its own."""
ATTRIBUTES: dict[type, tuple[str, ...]] = {
    LoopContext: (
        *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
        *("previtem", "nextitem"),
    ),
    Cycler: ("current",),
    Macro: ("name", "arguments", "catch_kwargs", "catch_varargs", "caller"),
}
"""Other attributes of an object that a template may read."""


def allowed(kind: type) -> tuple[str, ...]:
    """The names of a type's attributes that a template may read."""
    return (*METHODS.get(kind, ()), *ATTRIBUTES.get(kind, ()))


@dataclass(frozen=True, slots=True)
class Function:
    """A function that templates may call, and its price."""

    call: Callable[..., Any]
    price: Price

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a template calls its functions itself")


def kept(budget: Budget, *values: Any, **more: Any) -> None:
    """Pay for arguments that are kept as they are."""
    budget.slots(len(values) + len(more))


def written(budget: Budget, message: object = "") -> None:
    budget.text(message)


def dictionary(budget: Budget, more: Any = (), /, **pairs: Any) -> None:
    _updated(budget, {}, more, **pairs)


SOLID = frozenset((str, int, float, bool, type(None), list, tuple, dict))
"""Types that are no iterators, as nearly all values; to ask of a type whether it is one takes longer."""


def whole(budget: Budget, values: Any) -> Any:
    """The argument of a method; what comes one by one as a list, so that it can be paid for before."""
    return values if type(values) in SOLID or not isinstance(values, Iterator) else budget.listed(values)
