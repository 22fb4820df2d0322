"""Who imports whom at run time, and where that goes round in circles.

An import inside a function counts; one under ``if TYPE_CHECKING`` is listed apart. An import of a name is one of the
module that the statement names: ``from .engine import Engine`` leads to ``engine``, ``from . import http`` to ``http``.
That importing a module runs the packages above it is not counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from house.statements import modules, statements

Graph = Mapping[str, set[str]]


@dataclass(frozen=True, slots=True)
class Imports:
    """Modules of one package by their dotted names, each with the modules of the package that it imports.

    ``runtime`` is what runs, at the top of a module or in a function; ``typing`` is for the type checker alone.
    """

    runtime: dict[str, set[str]] = field(default_factory=dict)
    typing: dict[str, set[str]] = field(default_factory=dict)


def imports_of(source: Path) -> Imports:
    """The imports of the package in the folder ``source``."""
    paths = {_dotted(path, source): path for path in modules(source)}
    imports = Imports()
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        tree = modules(source)[path]
        types = {id(node) for guard in statements(tree) if _is_guard(guard) for node in statements(guard)}
        imports.runtime[name], imports.typing[name] = set(), set()
        for node in statements(tree):
            into = imports.typing if id(node) in types else imports.runtime
            into[name] |= {target for target in _targets(node, package, paths) if target != name}
    return imports


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected parts of more than one node (Tarjan), each sorted."""
    return sorted(sorted(part) for part in _Parts(graph).all() if len(part) > 1)


def rooms(graph: Graph) -> dict[str, set[str]]:
    """The same graph between the rooms of a package: ``antiphon.api.app`` is of the room ``api``."""
    between: dict[str, set[str]] = {}
    for name, targets in graph.items():
        between.setdefault(room_of(name), set()).update(room_of(target) for target in targets)
    return {room: targets - {room} for room, targets in between.items()}


def room_of(name: str) -> str:
    """The room of a module: the first name below the package; the package itself is its own room."""
    package, _, rest = name.partition(".")
    return rest.partition(".")[0] or package


def _dotted(path: Path, source: Path) -> str:
    parts = path.relative_to(source.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _targets(node: ast.AST, package: str, known: Iterable[str]) -> Iterator[str]:
    """The modules among ``known`` that a statement imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name in known)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            base = ".".join([*above, *([module] if module else [])])
            for alias in names:
                inner = f"{base}.{alias.name}"
                yield from (name for name in (inner if inner in known else base,) if name in known)


class _Parts:
    """Tarjan's algorithm: nodes that reach each other are one part."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._number: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._open: list[str] = []
        self._parts: list[set[str]] = []

    def all(self) -> list[set[str]]:
        for node in self._graph:
            if node not in self._number:
                self._visit(node)
        return self._parts

    def _visit(self, node: str) -> None:
        self._number[node] = self._low[node] = len(self._number)
        self._open.append(node)
        for target in sorted(self._graph.get(node, ())):
            if target not in self._number:
                self._visit(target)
                self._low[node] = min(self._low[node], self._low[target])
            elif target in self._open:
                self._low[node] = min(self._low[node], self._number[target])
        if self._low[node] == self._number[node]:
            at = self._open.index(node)
            self._parts.append(set(self._open[at:]))
            del self._open[at:]
