"""The keywords of a schema one by one: what is enforced while sampling, judged at the end, or without effect.

>>> split = keywords({"type": "string", "title": "T", "pattern": "^a"}, (Relaxation("pattern", ".pattern"),))
>>> [found.path for found in split.enforced], [found.path for found in split.judged]
(['.type'], ['.pattern'])
>>> [found.path for found in split.unused]
['.title']
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from antiphon.conversation import JsonSchema

from .exact import Relaxation, subschemas
from .patterns import NOT_REGULAR, PATTERNS

_CONSTRAINTS = frozenset(
    (
        "type enum const properties required additionalProperties patternProperties propertyNames minProperties "
        "maxProperties items prefixItems additionalItems minItems maxItems uniqueItems contains minContains "
        "maxContains minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
        "allOf anyOf oneOf not if then else dependentRequired dependentSchemas dependencies unevaluatedItems "
        "unevaluatedProperties $ref $dynamicRef $recursiveRef nullable"
    ).split()
)
_FRAME = frozenset(["$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions"])
"""Keywords that others refer to."""
_BY_PLACE = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
"""Keywords that are relaxed at their own place alone; of another, one place stands for all."""


class Keyword(msgspec.Struct, frozen=True):
    """A keyword and its place in the schema (as ``.properties.a.pattern``)."""

    keyword: str
    path: str


class Keywords(msgspec.Struct, frozen=True):
    """The keywords of a schema, each once."""

    enforced: tuple[Keyword, ...]
    judged: tuple[Keyword, ...]
    unused: tuple[Keyword, ...]


def keywords(schema: JsonSchema, relaxed: Sequence[Relaxation], *, nothing_enforced: bool = False) -> Keywords:
    """When each keyword counts. ``relaxed`` are those that are left to the end, with all that is below them.

    A keyword counts as judged at the end wherever it stands, if one of that name is: which one, the canonical form of
    the schema does not say. With ``nothing_enforced`` all of them are.
    """
    everywhere = {one.keyword for one in relaxed} - _BY_PLACE
    places = [one.path for one in relaxed]
    sorted_out: tuple[list[Keyword], list[Keyword], list[Keyword]] = ([], [], [])
    for found, value in _all(schema, ""):
        below = any(found.path == at or found.path.startswith((f"{at}.", f"{at}[")) for at in places)
        late = nothing_enforced or found.keyword in everywhere or below
        kind = 2 if _is_unused(found.keyword, value) else 1 if late else 0
        sorted_out[kind].append(found)
    enforced, judged, unused = map(tuple, sorted_out)
    return Keywords(enforced, judged, unused)


def _all(node: Any, where: str) -> Iterator[tuple[Keyword, Any]]:
    """Every keyword but those of the frame, with its value; the outer ones first."""
    todo = deque([(node, where)])
    while todo:
        node, where = todo.popleft()
        if not isinstance(node, dict):
            continue
        yield from ((Keyword(key, f"{where}.{key}"), node[key]) for key in node if key not in _FRAME)
        todo += [(inner, where + step) for inner, step in subschemas(node)]


def _is_unused(keyword: str, value: Any) -> bool:
    """An annotation, a format of nobody's, or a word that means nothing."""
    if keyword == "format":
        return not isinstance(value, str) or (value not in PATTERNS and value not in NOT_REGULAR)
    return keyword not in _CONSTRAINTS
