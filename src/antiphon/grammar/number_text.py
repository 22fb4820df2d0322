"""Patterns of JSON numbers between bounds that end: no more digits than those who read them can hold.

An integer is one of 64 bits. Any other number has up to 19 digits before the point and 20 behind it, and an exponent
that a double has. Where a schema's own bounds are longer, so are its numbers (``digits``).

>>> integers(0, 255)
'(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])'
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import msgspec

DIGITS = 19
"""Of the largest integer of 64 bits."""
_MOST, _LEAST = 2**63 - 1, -(2**63)
_DECIMALS = 20
_ANY_FRACTION = r"(?:\.[0-9]+)?"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a number is between, None for no bound; ``over``/``under``: the bound itself is none of them."""

    low: Decimal | None = None
    high: Decimal | None = None
    over: bool = False
    under: bool = False


def integers(low: int | None, high: int | None, digits: int = DIGITS) -> str:
    """The integers from ``low`` to ``high``; at a side without a bound, as far as readers go. Empty where none is."""
    largest, smallest = (10**digits - 1, 1 - 10**digits) if digits > DIGITS else (_MOST, _LEAST)
    low = min(smallest, high or 0) if low is None else low
    high = max(largest, low) if high is None else high
    return _either([*(f"-{one}" for one in _whole(max(1, -high), -low)), *_whole(max(0, low), high)])


def numbers(bounds: Bounds, digits: int = DIGITS) -> str:
    """Terminals that together are the numbers between the bounds: without any they may have an exponent."""
    plain = rf"-?(?:0|[1-9][0-9]{{0,{digits - 1}}})(?:\.[0-9]{{1,{_DECIMALS}}})?"
    if bounds.low is None and bounds.high is None:
        small = r"[eE](?:\+?[01]?[0-9]{1,2}|-[0-9]{1,3})"
        large = rf"-?[0-9](?:\.[0-9]{{1,{_DECIMALS}}})?[eE]\+?(?:2[0-9][0-9]|30[0-7])"
        largest = r"-?1(?:\.[0-6][0-9]{0,19})?[eE]\+?308"
        return f"/{plain}(?:{small})?|{large}|{largest}/"
    parts = [f"/{plain}/"]
    if bounds.low is not None:
        parts.append(f"/{_at_least(bounds.low, digits, over=bounds.over)}/")
    if bounds.high is not None:
        parts.append(f"/{_at_most(bounds.high, digits, under=bounds.under)}/")
    return " & ".join(parts)


def _at_least(low: Decimal, digits: int, *, over: bool) -> str:
    if low < 0:
        return _either([*_up_to(-low, under=over, sign="-"), f"(?:0|[1-9][0-9]*){_ANY_FRACTION}"])
    return _either(_from(low, digits, over=over))


def _at_most(high: Decimal, digits: int, *, under: bool) -> str:
    if high < 0:
        return _either(_from(-high, digits, over=under, sign="-"))
    negative = _from(Decimal(0), digits, over=high == 0 and under, sign="-")
    return _either([*negative, *([] if high == 0 and under else _up_to(high, under=under))])


def _from(low: Decimal, digits: int, *, over: bool, sign: str = "") -> list[str]:
    """Numbers without a sign from ``low`` on: more before the point, or as much, and enough behind it."""
    whole, fraction = _split(low)
    more = [f"{one}{_ANY_FRACTION}" for one in _whole(whole + 1, 10 ** max(digits, len(str(whole)) + 1) - 1)]
    if not fraction:
        behind = r"\.[0-9]*[1-9][0-9]*" if over else _ANY_FRACTION
        return [f"{sign}{one}" for one in (*more, f"{whole}{behind}")]
    larger = [f"{fraction[:i]}[{int(c) + 1}-9][0-9]*" for i, c in enumerate(fraction) if c != "9"]
    exact = f"{fraction}{'[0-9]*[1-9][0-9]*' if over else '[0-9]*'}"
    return [f"{sign}{one}" for one in (*more, rf"{whole}\.{_either([*larger, exact])}")]


def _up_to(high: Decimal, *, under: bool, sign: str = "") -> list[str]:
    """Numbers without a sign up to ``high``."""
    whole, fraction = _split(high)
    less = [f"{one}{_ANY_FRACTION}" for one in _whole(0, whole - 1)]
    if not fraction:
        return [f"{sign}{one}" for one in (*less, *([] if under else [rf"{whole}(?:\.0+)?"]))]
    smaller = [f"{fraction[:i]}[0-{int(c) - 1}][0-9]*" for i, c in enumerate(fraction) if c != "0"]
    shorter = [fraction[:i] for i in range(1, len(fraction))]
    exact = [] if under else [f"{fraction}0*"]
    return [f"{sign}{one}" for one in (*less, rf"{whole}(?:\.{_either([*smaller, *shorter, *exact])})?")]


def _split(value: Decimal) -> tuple[int, str]:
    """What is before the point, and the digits behind it without the zeros at their end."""
    before, _, behind = f"{value:f}".partition(".")
    return int(before), behind.rstrip("0")


def _whole(low: int, high: int) -> list[str]:
    """The integers from ``low`` to ``high``, none of which is negative, by their number of digits."""
    found: list[str] = []
    while low <= high:
        most = min(high, 10 ** len(str(low)) - 1)
        found += _of_one_length(str(low), str(most))
        low = most + 1
    return found


def _of_one_length(low: str, high: str) -> Iterator[str]:
    """The texts of digits from ``low`` to ``high``, which are equally long."""
    rest = len(low) - 1
    if not low:
        yield ""
    elif low[0] == high[0]:
        yield from (f"{low[0]}{inner}" for inner in _of_one_length(low[1:], high[1:]))
    else:
        first, last = int(low[0]), int(high[0])
        if low[1:].strip("0"):
            yield from (f"{first}{inner}" for inner in _of_one_length(low[1:], "9" * rest))
            first += 1
        above = list(_of_one_length("0" * rest, high[1:])) if high[1:].strip("9") else []
        last -= bool(above)
        if first <= last:
            yield f"{_digit(first, last)}{'[0-9]' * rest if rest < 3 else f'[0-9]{{{rest}}}'}"
        yield from (f"{high[0]}{inner}" for inner in above)


def _digit(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"


def _either(ways: list[str]) -> str:
    return f"(?:{'|'.join(ways)})" if len(ways) > 1 else "".join(ways)
