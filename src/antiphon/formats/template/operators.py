"""The cost of a template's operations, computed from the operands before the operation is done."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from string import Formatter
from typing import Any

from jinja2.environment import Environment
from jinja2.runtime import Undefined
from jinja2.sandbox import SandboxedFormatter

from .budget import CHARS_A_STEP, MEASURED, Budget, Exhausted, sized

_COMPARED = 8 * CHARS_A_STEP
"""Characters that a naive search compares in a step."""
_ESCAPE = 5
"""Characters that one is escaped to at most: `&#34;`."""
_JSON = (str, int, float, type(None), list, tuple, dict)
_NUMBERS = (int, float, bool)
_DIRECTIVE = re.compile(r"%(\([^)]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.)?", re.DOTALL)
_DIGITS = re.compile(r"\d+")


def operation(budget: Budget, operator: str, left: Any, right: Any) -> None:
    """Pay for ``left operator right``. Raises `Exhausted`, or `TypeError` for operands that have no such operation."""
    budget.charge()
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return _arithmetic(operator, left, right)
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return None
    match operator, left, right:
        case "+", str(), str():
            escaped = hasattr(left, "__html__") or hasattr(right, "__html__")
            budget.chars((_ESCAPE if escaped else 1) * (len(left) + len(right)))
        case "%", str(), _:
            percent(budget, left, right)
        case "*", (str() | list() | tuple()) as value, int() as times:
            _repeated(budget, value, times)
        case "*", int() as times, (str() | list() | tuple()) as value:
            _repeated(budget, value, times)
        case "+", (list() | tuple()), (list() | tuple()):
            budget.slots(len(left) + len(right))
        case _ if not (isinstance(left, _JSON) and isinstance(right, _JSON)):
            raise TypeError(f"{type(left).__name__} {operator} {type(right).__name__} is not possible here")
    return None


def _arithmetic(operator: str, left: Any, right: Any) -> None:
    powers = operator == "**" and isinstance(left, int) and isinstance(right, int)
    if powers and right > 0 and (abs(left).bit_length() - 1) * right > CHARS_A_STEP:
        raise Exhausted("the chat template makes too large a number")


def _repeated(budget: Budget, value: str | list[Any] | tuple[Any, ...], times: int) -> None:
    count = len(value) * max(times, 0)
    if isinstance(value, str):
        budget.chars(count)
    else:
        budget.slots(count)


def contains(budget: Budget, container: Any, value: Any) -> bool:
    """Whether the value is in the container, as Python finds it."""
    if isinstance(container, str) and isinstance(value, str):
        search(budget, container, value)
    elif isinstance(container, Iterator):
        container = budget.each(container, 1 + budget.value(value))
    elif isinstance(container, dict):
        budget.value(value)
    elif isinstance(container, MEASURED):
        budget.charge((1 + budget.value(value)) * (1 + len(container)))
    elif not isinstance(container, (str, Undefined)):
        raise TypeError(f"nothing is in a {type(container).__name__}")
    return value in container


def search(budget: Budget, text: str, part: str, *, backwards: bool = False) -> None:
    """Pay for finding a part in a text at the worst.

    Python compares character by character in short texts, with long parts and from the right; else in linear time.
    """
    long, short = len(text), len(part)
    naive = backwards or long < 2500 or (short >= 100 and long < 30_000)
    if naive and short > 1:
        budget.charge(1 + max(long - short + 1, 0) * short // _COMPARED)
    budget.read(long + 4 * short)


def percent(budget: Budget, pattern: str, values: Any) -> None:
    """Pay for ``pattern % values``: all widths and precisions, and each value where it is written."""
    if hasattr(pattern, "__html__"):
        raise TypeError("'%' of an escaped text is not possible here")
    budget.read(len(pattern))
    given = iter(values if isinstance(values, tuple) else (values,))
    length = len(pattern)
    for directive in _DIRECTIVE.finditer(pattern):
        budget.charge()
        key, width, precision, kind = (group or "" for group in directive.groups())
        if kind == "%":
            continue
        value = values.get(key[1:-1]) if key and isinstance(values, Mapping) else next(given, None)
        length += _width(width) + _width(precision) + budget.written(value, kind != "s") * (10 if kind == "a" else 1)
        length += 330 if kind and kind in "eEfFgG" else 0
        if length > budget.output:
            raise Exhausted("the chat template formats too wide a text")
    budget.chars(length)


def _width(digits: str) -> int:
    if digits == "*" or len(digits) > 4:
        raise Exhausted("the chat template formats too wide a text")
    return int(digits or 0)


class PricedFormatter(SandboxedFormatter):
    """Writes what `str.format` writes, each field paid before it is written."""

    def __init__(self, environment: Environment, budget: Budget) -> None:
        super().__init__(environment)
        self._budget = budget

    def vformat(self, format_string: str, args: Any, kwargs: Any) -> str:
        self._budget.chars(len(format_string))
        for _, _, spec, _ in Formatter.parse(self, format_string):
            self._budget.charge()
            if spec and "{" in spec:
                raise Exhausted("the chat template formats too wide a text")
        return super().vformat(format_string, args, kwargs)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        self._budget.chars(self._budget.written(value, conversion is not None) * (10 if conversion == "a" else 1))
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        widths = [len(digits) for digits in _DIGITS.findall(format_spec)]
        if len(format_spec) > CHARS_A_STEP or max(widths, default=0) > 4:
            raise Exhausted("the chat template formats too wide a text")
        wide = sum(map(int, _DIGITS.findall(format_spec)))
        self._budget.chars(self._budget.written(value) * (4 if format_spec else 1) + wide + (330 if format_spec else 0))
        return super().format_field(value, format_spec)


def ordered(budget: Budget, values: Any) -> None:
    """Pay for sorting: each value is compared some log2(n) times, and a key is made of it."""
    count = sized(values)
    budget.slots(2 * count)
    steps = budget.value(values) if not isinstance(values, (str, range)) else count
    budget.take(steps * CHARS_A_STEP)
    budget.charge(steps * int(1 + math.log2(count + 1)))


# The filter `tojson`, whose text is measured before it is written.

FARTHEST = 64
"""Characters of an indent, and between two places of JSON."""
_MAX_DEPTH = 200


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As Hugging Face has it: plain JSON, no HTML escapes."""
    value = budget.listed(value) if isinstance(value, Iterator) else value
    far = 0 if indent is None else len(indent) if isinstance(indent, str) else indent
    between, behind = separators or (", ", ": ")
    if max(far, len(between), len(behind)) > FARTHEST:
        raise Exhausted("the chat template indents too far")
    if sort_keys:
        ordered(budget, value)
    budget.chars(_json_length(budget, value, len(between) + len(behind) + 1, max(far, 0), 6 if ensure_ascii else 1))
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_plain
    )


def _json_length(budget: Budget, value: Any, apart: int, far: int, wide: int, depth: int = 0) -> int:
    """Characters of a value's JSON at most: ``apart`` and ``far`` for each place, a character as wide as its escape."""
    if isinstance(value, str):
        budget.read(len(value))
        return 2 + (len(encode_basestring(value)) if wide == 1 or value.isascii() else 2 * wide * len(value))
    if not isinstance(value, MEASURED):
        return budget.written(value)
    budget.slots(len(value))
    each = apart + far * (depth + 1) + 1
    length = 4 + far * depth + each * len(value)
    for key in value if isinstance(value, dict) else ():
        length += _json_length(budget, key, apart, far, wide, depth + 1)
    if length > budget.output or depth > _MAX_DEPTH:
        raise Exhausted("the chat template makes too long a text")
    for item in value.values() if isinstance(value, dict) else value:
        length += _json_length(budget, item, apart, far, wide, depth + 1)
    return length


def _plain(value: Any) -> Any:
    if isinstance(value, MEASURED):
        return list(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")
