"""How large a schema or a pattern may be: checked before anything compiles it.

The engine's compiler has limits of its own for states and symbols, but a count of 10⁹ items makes it request
more memory than there is, which ends the process. So counts, sizes and nesting are bounded here, in linear time and
without recursion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.errors import Position, RequestError


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """``characters`` of all names and texts, ``depth`` and ``nodes`` of JSON; ``count`` of items or properties.

    ``literal`` is in bytes of UTF-8, of one value of ``enum`` or ``const`` and of one name.
    ``length`` is a string's, ``pattern`` is in characters, ``unrolled`` is a pattern's size with its repetitions
    written out. ``text`` bounds one grammar: its Lark text in characters. ``mask_seconds`` of processor time is what
    the mask of a token may cost, in the mean.
    """

    characters: int = 256 * 1024
    depth: int = 64
    nodes: int = 20_000
    count: int = 10_000
    length: int = 1_000_000
    enum: int = 5_000
    properties: int = 2_000
    pattern: int = 2_000
    unrolled: int = 16 * 1024
    text: int = 4 * 1024 * 1024
    literal: int = 16 * 1024
    mask_seconds: float = 0.005


LIMITS = Limits()
"""The limits that hold where a caller names no others."""
UNJUDGED = "no check can hold the value"
"""The fault of a value that would take too long to judge, or that nothing here can represent."""
MOST_QUOTED = 200
"""Characters of what is wrong with a schema that an error repeats."""

_COUNTS = frozenset({"minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_BOUNDED = _COUNTS | _LENGTHS | {"enum", "const", "properties", "required", "pattern", "patternProperties"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_schema(schema: Any, path: str, limits: Limits = LIMITS) -> None:
    """Raises `RequestError` at the place where the schema goes beyond a limit, or is not JSON that it could be."""
    nodes = characters = 0
    open_nodes: list[tuple[Any, _Place, int]] = [(schema, path, 0)]
    while open_nodes:
        node, where, depth = open_nodes.pop()
        nodes += 1
        inner = len(node) if isinstance(node, list | tuple) else 0
        if nodes + len(open_nodes) + inner > limits.nodes:  # before a list of millions is looked into
            raise _limit_error(f"the schema has more than {limits.nodes} values", path)
        if depth > limits.depth:
            raise _limit_error(f"the schema is nested more than {limits.depth} deep", _spelled(where))
        if isinstance(node, str):
            characters += len(node)
            _check_text(node, where)
        elif isinstance(node, dict):
            characters += sum(map(len, node))
            for name in node:
                _check_text(name, where)
            _check_object(node, where, limits)
            open_nodes += [(value, (where, key), depth + 1) for key, value in node.items()]
        elif isinstance(node, list | tuple):
            open_nodes += [(value, (where, i), depth + 1) for i, value in enumerate(node)]
        elif isinstance(node, float) and not math.isfinite(node):
            raise _limit_error("a number in the schema is out of range", _spelled(where))
        if characters > limits.characters:
            raise _limit_error(f"the schema has more than {limits.characters} characters", path)


_Place = Any
"""The request's path of the schema, or a pair of a place and a step from there: spelled only for an error."""


def _spelled(place: _Place) -> str:
    steps: list[str] = []
    while isinstance(place, tuple):
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return str(place) + "".join(reversed(steps))


def _check_text(text: str, where: _Place) -> None:
    if not text.isascii() and _SURROGATE.search(text):
        raise _limit_error("a text or name of the schema has a lone surrogate, which no text can hold", _spelled(where))


def _check_object(node: dict[str, Any], where: _Place, limits: Limits) -> None:
    if len(node) > limits.properties:
        raise _limit_error(f"the schema has more than {limits.properties} entries in one place", _spelled(where))
    if not _BOUNDED.isdisjoint(node):
        _check_keywords(node, _spelled(where), limits)
        for step, value in _literals(node):
            if not _is_within(limits.literal, value):
                raise _limit_error(f"a value or name has more than {limits.literal} bytes", f"{_spelled(where)}{step}")


def _literals(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values that a reply may have to spell out as they stand, each with the step to it."""
    if "const" in node:
        yield ".const", node["const"]
    if isinstance(node.get("enum"), list):
        yield from ((f".enum[{i}]", value) for i, value in enumerate(node["enum"]))
    for key in ("properties", "required"):
        if isinstance(node.get(key), dict | list):
            yield from ((f".{key}", name) for name in node[key])


def _is_within(most: int, value: Any) -> bool:
    """Whether the texts and values of a JSON value come to at most so many bytes."""
    size, todo = 0, [value]
    while todo and size <= most:
        match todo.pop():
            case str(text):
                size += len(text.encode("utf-8", "surrogatepass"))
            case dict(items):
                todo += (*items, *items.values())
            case list(items):
                todo += items
        size += 1
    return size <= most + 1


def _check_keywords(node: dict[str, Any], where: str, limits: Limits) -> None:
    """Keywords are taken for what they may be; data that looks like one is bounded too, which harms nobody."""
    for key, value in node.items():
        match value:
            case bool():
                continue
            case int() | float() if key in _COUNTS and value > limits.count:
                raise _limit_error(f"{key} is above {limits.count}", f"{where}.{key}")
            case int() | float() if key in _LENGTHS and value > limits.length:
                raise _limit_error(f"{key} is above {limits.length}", f"{where}.{key}")
            case list() if key == "enum" and len(value) > limits.enum:
                raise _limit_error(f"enum has more than {limits.enum} values", f"{where}.{key}")
            case str() if key == "pattern":
                check_pattern(value, f"{where}.{key}", limits)
            case dict() if key == "patternProperties":
                for pattern in value:
                    check_pattern(pattern, f"{where}.{key}", limits)


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\{(\d*)(?:,(\d*))?\}|.", re.DOTALL)


def check_pattern(pattern: str, path: str, limits: Limits = LIMITS) -> None:
    """Raises `RequestError` for a pattern that is too long, or that its nested repetitions make too large."""
    if len(pattern) > limits.pattern:
        raise _limit_error(f"the pattern is longer than {limits.pattern} characters", path)
    if "\0" in pattern:
        raise _limit_error("the pattern contains U+0000", path)
    if _unrolled(_TOKEN.finditer(pattern), limits.unrolled) > limits.unrolled:
        raise _limit_error(f"the pattern's repetitions amount to more than {limits.unrolled} characters", path)


def _unrolled(tokens: Iterator[re.Match[str]], most: int) -> int:
    """The pattern's size with every ``x{m,n}`` written out n times; what it is above ``most`` does not matter."""
    sizes, last = [0], [0]
    for token in tokens:
        text = token[0]
        if text == "(":
            sizes.append(0)
            last.append(0)
        elif text == ")" and len(sizes) > 1:
            last.pop()
            last[-1] = sizes.pop()
            sizes[-1] += last[-1]
        elif text[0] == "{" and len(text) > 1:
            times = max(int(digits or 0) for digits in token.groups("0"))
            times = min(times, most + 1)
            sizes[-1] += last[-1] * (times - 1) if times else 0
            last[-1] *= max(1, times)
        else:
            last[-1] = 1
            sizes[-1] += 1
        if sizes[-1] > most:
            return sizes[-1]
    return sum(sizes)


def no_schema(reason: str, path: str) -> RequestError:
    """The error for what a library says of a schema that it cannot take: its first line, and not all that it quotes."""
    reason = reason.partition("\n")[0][:MOST_QUOTED]
    hint = "A schema is of draft 2020-12, or of 4, 6, 7 or 2019-09 by its $schema, and refers only to its own parts."
    return RequestError(f"this is no schema: {reason}", code="invalid_schema", position=Position(path=path), hint=hint)


def _limit_error(message: str, path: str) -> RequestError:
    return RequestError(
        message, code="invalid_schema", position=Position(path=path), hint="Ask for less at once, or for simpler parts."
    )
