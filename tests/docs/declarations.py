"""How the source declares a public name: what inspection does not say of constants, aliases and fields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from itertools import pairwise

LONGEST = 400
"""Of a value that is shown as it stands, in characters."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An assignment in the source: its text, and the string behind it that says what it is (empty: none)."""

    text: str
    about: str


def assigned(module: str, name: str) -> Declaration | None:
    """Where a name of a module is assigned, there or in the module that it is imported from; None: it is not."""
    found = _names(module).get(name)
    return assigned(*found) if isinstance(found, tuple) else found


@cache
def _names(module: str) -> dict[str, Declaration | tuple[str, str]]:
    """The names of a module: each with its assignment, or with the module and the name that it is imported from."""
    source = inspect.getsource(loaded := import_module(module))
    found: dict[str, Declaration | tuple[str, str]] = {}
    body = list(_statements(ast.parse(source).body))
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            origin = resolve_name("." * statement.level + (statement.module or ""), loaded.__package__ or "")
            if origin.startswith("antiphon"):
                found |= {alias.asname or alias.name: (origin, alias.name) for alias in statement.names}
    return found | _assignments(body, source)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those below an ``if``: lazy packages import for the type checker only."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _statements(statement.body)


def _assignments(body: list[ast.stmt], source: str) -> dict[str, Declaration]:
    found = {}
    for statement, behind in pairwise([*body, ast.Pass()]):
        about = behind.value.value if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant) else ""
        for name, text in _texts(statement, source):
            found[name] = Declaration(text, inspect.cleandoc(str(about)))
    return found


def _texts(statement: ast.stmt, source: str) -> Iterator[tuple[str, str]]:
    """The names that a statement assigns, each with its assignment as it stands, or its head where that is long."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, f"{name} = {_short(value, source)}"
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = zip(targets, values, strict=True)
            yield from ((ast.unparse(one), f"{ast.unparse(one)} = {_short(value, source)}") for one, value in pairs)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
            head = f"{name}: {ast.unparse(annotation)}"
            yield name, f"{head} = {_short(value, source)}" if value else head


def _short(value: ast.expr, source: str) -> str:
    text = ast.get_source_segment(source, value) or ""
    if len(text) > LONGEST:
        return "…"
    return f"(\n    {text}\n)" if isinstance(value, ast.BinOp) and "\n" in text else text


def fields_of(kind: type) -> dict[str, str]:
    """What the strings behind the public fields of a class say."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = _assignments(definition.body, source)
    return {name: said.about for name, said in found.items() if said.about and not name.startswith("_")}
