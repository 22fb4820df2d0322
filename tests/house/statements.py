"""The modules of a folder, parsed once, and their statements at any depth: a tenth of the nodes, where imports,
functions and classes are."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

Block = ast.stmt | ast.excepthandler | ast.match_case
"""What stands in a statement's own lists: no expression has a statement in it."""


@lru_cache(maxsize=2)
def modules(source: Path) -> Mapping[Path, ast.Module]:
    """Every module below a folder, in the order of their paths, as it was when it was first asked for."""
    gc.disable()  # Nodes by the million, of which none is garbage.
    try:
        return {path: ast.parse(path.read_text("utf-8")) for path in sorted(source.rglob("*.py"))}
    finally:
        gc.enable()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node, and every statement, handler of an exception and case below it."""
    yield node
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], Block):
            for each in value:
                yield from statements(each)
