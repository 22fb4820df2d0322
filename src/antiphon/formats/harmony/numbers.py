"""Compact JSON as the reference writes it into a prompt: numbers included, to the letter (R-03)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from antiphon.errors import RenderError

SMALLEST, LARGEST = -(2**63), 2**64 - 1
"""Integers in this range keep all their digits; others become doubles."""

MAX_DEPTH = 120


class JsonText(msgspec.Struct, frozen=True):
    """``signed_exponent``: dialect b writes ``1e+21`` where dialect a writes ``1e21``."""

    signed_exponent: bool = False

    def compact(self, value: Any, depth: int = 0) -> str:
        """One line, no spaces, keys in their order, characters unescaped. Raises `RenderError` for what is not JSON."""
        if depth > MAX_DEPTH:
            raise RenderError(f"a JSON value is nested more than {MAX_DEPTH} levels deep", code="json_too_deep")
        match value:
            case None | bool() | str():
                return json.dumps(value, ensure_ascii=False)
            case int() | float():
                return self.number(value)
            case Mapping():
                members = (f"{self.compact(str(k), depth)}:{self.compact(v, depth + 1)}" for k, v in value.items())
                return "{" + ",".join(members) + "}"
            case list() | tuple():
                return "[" + ",".join(self.compact(item, depth + 1) for item in value) + "]"
            case _:
                raise RenderError(f"a {type(value).__name__} is not JSON", code="not_json")

    def number(self, number: int | float) -> str:
        """Integers of 64 bits as they are; any other number as the shortest form of the double that was read."""
        if isinstance(number, int) and SMALLEST <= number <= LARGEST:
            return str(number)
        double = _as_read(number)
        if not math.isfinite(double):
            raise RenderError("a number in a schema is not finite", code="not_json")
        return self._shortest(double)

    def _shortest(self, double: float) -> str:
        sign, figures, shift = Decimal(repr(double)).as_tuple()
        assert isinstance(shift, int)
        minus = "-" if sign else ""
        digits = "".join(map(str, figures)).rstrip("0")
        if not digits:
            return f"{minus}0.0"
        point = len(figures) + shift  # where the decimal point is, counted from the first digit
        if 0 < point <= 16:
            return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
        if -5 < point <= 0:
            return f"{minus}0.{'0' * -point}{digits}"
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        plus = "+" if self.signed_exponent and point > 1 else ""
        return f"{minus}{digits[0]}{fraction}e{plus}{point - 1}"


def _as_read(number: int | float) -> float:
    """The double that the reference's JSON reader makes of a number's digits.

    It keeps the digits that fit 64 bits and scales once by a power of ten, which is one unit in the last place off now
    and then. The prompt shows its result, so Antiphon computes it in the same way.
    """
    if isinstance(number, float) and not math.isfinite(number):
        return number
    sign, figures, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    significand = 0
    for i, figure in enumerate(figures):
        if significand * 10 + figure > LARGEST:
            exponent += len(figures) - i
            break
        significand = significand * 10 + figure
    double = -float(significand) if sign else float(significand)
    while exponent < -308 and double:
        double /= 1e308
        exponent += 308
    power = float(f"1e{abs(exponent)}")
    return double / power if exponent < 0 else double * power
