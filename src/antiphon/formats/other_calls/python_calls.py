"""Calls in Python's spelling: ``f(a="x")``, ``f({"a": 1})``, one a line or in a list; ``print`` may be round them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

from .offered import Offered, properties_of

PythonCall = tuple[str, dict[str, Any]]
"""A name, and the arguments by theirs."""
_WORDS = {"true": True, "false": False, "null": None}


def python_calls(text: str, offered: Offered) -> list[PythonCall]:
    """The calls that the text is; none where it is anything else."""
    try:
        body = ast.parse(text).body
        return [_call(node, offered) for statement in body for node in _expressions(statement)]
    except (SyntaxError, ValueError, MemoryError):
        return []


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    if not isinstance(statement, ast.Expr):
        raise ValueError("no expression")
    yield from statement.value.elts if isinstance(statement.value, (ast.List, ast.Tuple)) else [statement.value]


def _call(node: ast.expr, offered: Offered) -> PythonCall:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("no call")
    given: dict[str, Any] = {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}
    values = [_literal(value) for value in node.args]
    name = ast.unparse(node.func)
    if len(values) == 1 and isinstance(values[0], dict) and not given:
        return name, values[0]
    tool = offered.named(name)
    names = properties_of(tool) if tool is not None else ()
    if len(values) > len(names):
        raise ValueError("more arguments than the tool has")
    return name, dict(zip(names, values, strict=False)) | given


def _literal(node: ast.expr) -> Any:
    """Python's literal, in which JSON's words may stand for Python's."""
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise ValueError("no literal")
        return {str(_literal(key)): _literal(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    try:
        value = ast.literal_eval(node)
        json.dumps(value)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        raise ValueError("no literal") from None
    return value
