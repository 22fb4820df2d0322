"""The statements of a module, at any depth: a tenth of its nodes, where imports, functions and classes are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Block = ast.stmt | ast.excepthandler | ast.match_case
"""What stands in a statement's own lists: no expression has a statement in it."""


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node, and every statement, handler of an exception and case below it."""
    yield node
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], Block):
            for each in value:
                yield from statements(each)
