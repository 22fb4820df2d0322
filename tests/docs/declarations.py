"""How the source declares a public name: what inspection does not say of constants, aliases and fields."""

from __future__ import annotations

import ast
import inspect
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
def _parsed(module: str) -> tuple[list[bytes], list[ast.stmt]]:
    """The lines of a module and its statements."""
    source = inspect.getsource(import_module(module))
    return source.encode().split(b"\n"), list(_statements(ast.parse(source).body))


@cache
def _names(module: str) -> dict[str, Declaration | tuple[str, str]]:
    """The names of a module: each with its assignment, or with the module and the name that it is imported from."""
    loaded, (source, body) = import_module(module), _parsed(module)
    found: dict[str, Declaration | tuple[str, str]] = {}
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


def _assignments(body: list[ast.stmt], source: list[bytes]) -> dict[str, Declaration]:
    found = {}
    for statement, behind in pairwise([*body, ast.Pass()]):
        about = behind.value.value if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant) else ""
        for name, text in _texts(statement, source):
            found[name] = Declaration(text, inspect.cleandoc(str(about)))
    return found


def _texts(statement: ast.stmt, source: list[bytes]) -> Iterator[tuple[str, str]]:
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


def _short(value: ast.expr, source: list[bytes]) -> str:
    assert value.end_lineno is not None
    lines = source[value.lineno - 1 : value.end_lineno]
    lines[-1] = lines[-1][: value.end_col_offset]
    lines[0] = lines[0][value.col_offset :]
    text = b"\n".join(lines).decode()
    if len(text) > LONGEST:
        return "…"
    return f"(\n    {text}\n)" if isinstance(value, ast.BinOp) and "\n" in text else text


def fields_of(kind: type) -> dict[str, str]:
    """What the strings behind the public fields of a class say."""
    try:
        source, body = _parsed(kind.__module__)
    except (OSError, TypeError):
        return {}
    found = {}
    for definition in body:
        if isinstance(definition, ast.ClassDef) and definition.name == kind.__qualname__:
            found = _assignments(definition.body, source)
    return {name: said.about for name, said in found.items() if said.about and not name.startswith("_")}
