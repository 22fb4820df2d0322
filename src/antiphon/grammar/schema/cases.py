"""How many cases a schema has: its canonical form writes them out, in time and memory, before it gives up.

Choices that must be met at once multiply:

>>> choice = {"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}
>>> [count_cases(schema, {}) for schema in (choice, {"allOf": [choice, choice]}, {"anyOf": [choice, choice]})]
[3, 9, 6]
>>> has_too_many_cases({"allOf": [choice] * 7}), has_too_many_cases({"items": {"allOf": [choice] * 8}})
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

MOST_CASES = 4_096
"""Beyond, a schema is not brought to its canonical form: what the engine does not know of it is relaxed."""
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")


def has_too_many_cases(schema: Any) -> bool:
    """Whether some place of the schema has more than `MOST_CASES`, as far as keywords show."""
    counted: dict[int, int] = {}
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if count_cases(node, counted) > MOST_CASES:
                return True
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return False


def count_cases(node: Any, counted: dict[int, int]) -> int:
    """The ways to meet a node, at most one beyond `MOST_CASES`: one of each choice, for all that must be met at once.

    ``counted`` has the count of each node seen, by its `id`: a schema may have a node in many places.
    """
    if not isinstance(node, dict):
        return 1
    if id(node) not in counted:
        counted[id(node)] = min(MOST_CASES + 1, prod(_factors(node, counted)))
    return counted[id(node)]


def _factors(node: dict[str, Any], counted: dict[int, int]) -> Iterator[int]:
    for key in ("anyOf", "oneOf"):
        yield max(1, sum(count_cases(branch, counted) for branch in _listed(node, key)))
    for branch in _listed(node, "allOf"):
        yield count_cases(branch, counted)
    if "if" in node:
        yield count_cases(node.get("then"), counted) + count_cases(node.get("else"), counted)
    for key in _DEPENDENT:
        if isinstance(node.get(key), dict):
            yield 2 ** min(len(node[key]), 13)
    denied = node.get("not")
    if isinstance(denied, dict):
        yield max(1, len(_listed(denied, "required")), len(denied))


def _listed(node: dict[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []
