"""Every filter and test that a template may use, with its price: a function of the same parameters, run before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import filters, pass_context, tests
from jinja2.runtime import Context, Undefined

from .budget import Budget, Exhausted, sized
from .methods import Price, in_case, replaced, stripped, whole
from .operators import FARTHEST, contains, ordered, percent, to_json

_MOST_DIGITS = 256
_MOST_PARTS = 8
_PRECISE = 15
_ESCAPED = "&<>'\""
_LAZY = frozenset(("list", "map", "select", "reject", "selectattr", "rejectattr", "first", "default", "d", "items"))
"""Filters that take values one by one."""


def _free(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    budget.charge()


def _written(budget: Budget, value: Any) -> str:
    return budget.text(value)


def _copied(budget: Budget, value: Any) -> None:
    budget.chars(len(_written(budget, value)))


def _escaped(budget: Budget, value: Any) -> None:
    text = _written(budget, value)
    budget.chars(len(text) + 5 * sum(map(text.count, _ESCAPED)))


def _cased(budget: Budget, s: Any) -> None:
    in_case(budget, _written(budget, s))


def _words(budget: Budget, s: Any) -> None:
    text = _written(budget, s)
    in_case(budget, text)
    budget.room(len(text) // 2)
    budget.charge(len(text) // 8)


def _trimmed(budget: Budget, value: Any, chars: str | None = None) -> None:
    stripped(budget, _written(budget, value), chars)


def _indented(budget: Budget, s: Any, width: int | str = 4, first: Any = None, blank: Any = None) -> None:
    far = width if isinstance(width, int) else len(width)
    if far > FARTHEST:
        raise Exhausted("the chat template indents too far")
    text = _written(budget, s)
    lines = text.count("\n") + 2
    budget.room(lines)
    budget.chars(len(text) + lines * max(far, 0))


def _replaced(budget: Budget, s: Any, old: Any, new: Any, count: int | None = None) -> None:
    text, old, new = (_written(budget, each) for each in (s, old, new))
    replaced(budget, text, old, new, -1 if count is None else count)


def _cut(
    budget: Budget, s: Any, length: Any = None, killwords: Any = None, end: str = "...", leeway: Any = None
) -> None:
    budget.chars(len(_written(budget, s)) + len(_written(budget, end)))


def _formatted(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    percent(budget, _written(budget, value), kwargs or args)


def _digits(budget: Budget, value: Any, default: Any = None, base: Any = None) -> None:
    """Reading a number of many digits takes more time than there are digits."""
    budget.charge()
    if sized(value) > _MOST_DIGITS:
        raise Exhausted(f"the chat template reads a number of more than {_MOST_DIGITS} characters")


def _rounded(budget: Budget, value: Any, precision: int = 0, method: Any = None) -> None:
    budget.charge()
    if isinstance(value, Undefined):
        return
    if not isinstance(value, (int, float)):
        raise TypeError(f"a {type(value).__name__} cannot be rounded")
    if abs(precision) > _PRECISE:
        raise Exhausted(f"the chat template rounds to more than {_PRECISE} digits")


def _absolute(budget: Budget, x: Any) -> None:
    budget.charge()
    if not isinstance(x, (int, float, Undefined)):
        raise TypeError(f"a {type(x).__name__} is no number")


def _listed(budget: Budget, value: Any) -> None:
    budget.slots(sized(value))


def _reversed(budget: Budget, value: Any) -> None:
    if isinstance(value, str):
        budget.chars(len(value))
    else:
        budget.slots(sized(value))


def _sorted(
    budget: Budget, value: Any, reverse: Any = None, case_sensitive: Any = None, attribute: str | int | None = None
) -> None:
    _path(attribute)
    ordered(budget, value)


def _sorted_pairs(budget: Budget, value: Any, case_sensitive: Any = None, by: Any = None, reverse: Any = None) -> None:
    ordered(budget, value)


def _grouped(budget: Budget, value: Any, attribute: str | int, default: Any = None, case_sensitive: Any = None) -> None:
    _path(attribute)
    ordered(budget, value)
    budget.slots(4 * sized(value))


def _extreme(budget: Budget, value: Any, case_sensitive: Any = None, attribute: str | int | None = None) -> None:
    _path(attribute)
    ordered(budget, value)


def _distinct(budget: Budget, value: Any, case_sensitive: Any = None, attribute: str | int | None = None) -> None:
    _path(attribute)
    ordered(budget, value)
    if attribute is None:
        budget.keys(value)
    for each in value if attribute is not None else ():
        _keys_within(budget, each if isinstance(each, (list, tuple, dict)) else [each])


def _keys_within(budget: Budget, value: Any) -> None:
    """Refuse what could be a key that is found in a value by a path."""
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, (dict, list)):
            _keys_within(budget, each)
        else:
            budget.keys((each,))


def _summed(budget: Budget, iterable: Any, attribute: str | int | None = None, start: Any = 0) -> None:
    """Numbers alone: a sum of lists copies the first of them as often as there are lists."""
    _path(attribute)
    if not isinstance(start, (int, float)):
        raise TypeError(f"a sum that starts with a {type(start).__name__} is not possible here")
    budget.value(iterable)


def _mapped(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    budget.charge()
    _path(kwargs.get("attribute"))


def _chosen(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    budget.charge()


def _chosen_by(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    budget.charge()
    _path(args[0] if args else None)


def _path(attribute: Any) -> None:
    """Refuse a path with many parts: it is gone along for each value."""
    if isinstance(attribute, str) and (len(attribute) > _MOST_DIGITS or attribute.count(".") >= _MOST_PARTS):
        raise Exhausted("the chat template goes along too long a path")
    if attribute is not None and not isinstance(attribute, (str, int)):
        raise TypeError(f"a {type(attribute).__name__} is no attribute")


FILTERS: dict[str, Price] = {
    "abs": _absolute,
    "capitalize": _cased,
    "count": _free,
    "d": _free,
    "default": _free,
    "dictsort": _sorted_pairs,
    "e": _escaped,
    "escape": _escaped,
    "first": _free,
    "float": _digits,
    "format": _formatted,
    "groupby": _grouped,
    "indent": _indented,
    "int": _digits,
    "items": _free,
    "last": _free,
    "length": _free,
    "list": _listed,
    "lower": _cased,
    "map": _mapped,
    "max": _extreme,
    "min": _extreme,
    "reject": _chosen,
    "rejectattr": _chosen_by,
    "replace": _replaced,
    "reverse": _reversed,
    "round": _rounded,
    "safe": _copied,
    "select": _chosen,
    "selectattr": _chosen_by,
    "sort": _sorted,
    "string": _copied,
    "sum": _summed,
    "title": _words,
    "trim": _trimmed,
    "truncate": _cut,
    "unique": _distinct,
    "upper": _cased,
    "wordcount": _words,
}
"""The price of a filter of Jinja by its name; `join` and `tojson` are written below."""


def _compared(budget: Budget, value: Any, other: Any) -> None:
    budget.value(value)


def _numbers(budget: Budget, value: Any, num: Any = 2) -> None:
    """Refuses a text, of which `%` would be formatting."""
    budget.charge()
    if not all(isinstance(each, (int, float, Undefined)) for each in (value, num)):
        raise TypeError(f"a {type(value).__name__} is no number")


def _spelled(budget: Budget, value: Any) -> None:
    budget.text(value)


_FREE_TESTS = (
    *(
        "boolean",
        "callable",
        "defined",
        "escaped",
        "false",
        "filter",
        "float",
        "integer",
        "iterable",
        "mapping",
        "none",
    ),
    *("number", "sameas", "sequence", "string", "test", "true", "undefined"),
)
"""Tests that look at a value's type or identity alone: they cost what any step of a template costs."""
_COMPARISONS = (
    *("eq", "equalto", "==", "ne", "!=", "lt", "lessthan", "<", "le", "<=", "gt", "greaterthan", ">", "ge", ">="),
)
TESTS: dict[str, Price | None] = {
    **dict.fromkeys(_FREE_TESTS),
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(("odd", "even", "divisibleby"), _numbers),
    **dict.fromkeys(("lower", "upper"), _spelled),
}
"""The price of a test by its name, `in` is written below; None costs nothing of its own."""


def priced(name: str, function: Callable[..., Any], price: Price, budget_of: Callable[[Context], Budget]) -> Any:
    """A filter or test that is paid for before it does anything, and for what it makes of values."""
    wants = str(getattr(getattr(function, "jinja_pass_arg", None), "name", ""))
    lazy = name in _LAZY

    @pass_context
    def called(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(context)
        if not lazy:
            value = whole(budget, value)
        price(budget, value, *args, **kwargs)
        if not wants:
            made = function(value, *args, **kwargs)
        elif wants == "context":
            made = function(context, value, *args, **kwargs)
        else:
            made = function(
                context.eval_ctx if wants == "eval_context" else context.environment, value, *args, **kwargs
            )
        if type(made) is str:
            return made
        if isinstance(made, (list, tuple, dict)):
            return budget.grown(made) if made is not value else made
        if isinstance(made, (int, complex)):
            return budget.number(made) if made is not value else made
        return budget.each(made) if isinstance(made, Iterator) else made

    return called


def filters_of(budget_of: Callable[[Context], Budget]) -> dict[str, Any]:
    """The filters of a template by their names."""

    @pass_context
    def join(context: Context, value: Any, d: Any = "", attribute: str | int | None = None) -> str:
        budget = budget_of(context)
        _path(attribute)
        if attribute is not None:
            value = map(filters.make_attrgetter(context.environment, attribute), value)
        return _joined(budget, value, budget.text(d))

    @pass_context
    def tojson(context: Context, value: Any, *args: Any, **kwargs: Any) -> str:
        return to_json(budget_of(context), value, *args, **kwargs)

    own = {name: priced(name, filters.FILTERS[name], price, budget_of) for name, price in FILTERS.items()}
    return own | {"join": join, "tojson": tojson}


def tests_of(budget_of: Callable[[Context], Budget]) -> dict[str, Any]:
    """The tests of a template by their names."""

    @pass_context
    def is_in(context: Context, value: Any, seq: Any) -> bool:
        return contains(budget_of(context), seq, value)

    known: Mapping[str, Any] = tests.TESTS
    own = {
        name: known[name] if price is None else priced(name, known[name], price, budget_of)
        for name, price in TESTS.items()
    }
    return own | {"in": is_in}


def _joined(budget: Budget, values: Iterable[Any], between: str) -> str:
    texts: list[str] = []
    for value in values:
        budget.slots(1)
        texts.append(str(budget.text(value)))
    budget.chars(sum(map(len, texts)) + len(between) * max(len(texts) - 1, 0))
    return between.join(texts)
