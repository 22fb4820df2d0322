"""One table has every code that is raised, reported or sent; the API answers with its status; the page shows it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import antiphon.errors
from antiphon.errors.codes import CODES
from antiphon.http.errors import answer_to
from docs.errors import tables
from house.statements import modules, statements

# Which codes the source raises, reports or sends, read from its syntax trees.
#
# A code enters by a parameter or a field named ``code`` of type ``str`` (of an error, an incident, a finding, a tool's
# error, or a function that makes one), or as a class's ``default_code``. What stands there must be a text, a name of
# one, an entry of a table of them, or a code that came from elsewhere (``error.code``); anything else is in
# `Codes.unreadable`, so nothing slips by.

SOURCE = Path(__file__).parents[2] / "src" / "antiphon"

WORD = re.compile(r"[\w-]+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Codes:
    """``raised``: each code with the calls or classes that it enters by; ``unreadable``: places that hide theirs."""

    raised: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unreadable: list[str] = field(default_factory=list)


@lru_cache
def codes_in(source: Path = SOURCE) -> Codes:
    """The codes of all modules under ``source``."""
    trees = modules(source)
    constants = {name: value for tree in trees.values() for name, value in _constants(tree)}
    inside = {path: {} if "python" in path.parts else _places(tree) for path, tree in trees.items()}  # a program's code
    public = {name: place for places in inside.values() for name, place in places.items() if name[0] != "_"}
    codes = Codes()
    for path, tree in trees.items():
        if not {"code", "default_code", *public, *inside[path]}.intersection(WORD.findall(path.read_text("utf-8"))):
            continue  # It has none, and hands none on.
        others = {name: place for name, place in public.items() if name not in _defined(tree)}
        _Reader(path.relative_to(source), constants, others | inside[path], codes).visit(tree)
    return codes


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """``NAME = "text"`` and ``NAME = {key: "text"}`` at the top of a module."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str()) | ast.Dict() as value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() as value):
                yield name, value


def _places(tree: ast.Module) -> dict[str, int]:
    """Each function or class with a ``code: str``, and how many arguments stand before it (-1: only by name)."""
    found: dict[str, int] = {}
    for node in statements(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.update((node.name, place) for place in _parameter(node))
            case ast.ClassDef() if not node.name.startswith("CodeInterpreter"):
                fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
                names = [_named(line.target) for line in fields if ast.unparse(line.annotation) != "ClassVar[str]"]
                found |= {node.name: names.index("code")} if "code" in names else {}
    return found


def _defined(tree: ast.Module) -> set[str]:
    """The classes and functions of a module: a name means these first."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _parameter(function: Function) -> Iterator[int]:
    positional = [*function.args.posonlyargs, *function.args.args]
    method = bool(positional) and positional[0].arg in ("self", "cls")
    for number, argument in enumerate(positional):
        if argument.arg == "code" and _is_text(argument):
            yield number - method
    if any(argument.arg == "code" and _is_text(argument) for argument in function.args.kwonlyargs):
        yield -1


def _is_text(argument: ast.arg) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation) in ("str", "str | None")


class _Reader(ast.NodeVisitor):
    """Goes through a module and writes down what stands where a code belongs."""

    def __init__(self, path: Path, constants: Mapping[str, ast.expr], places: Mapping[str, int], codes: Codes) -> None:
        self._path, self._constants, self._places, self._codes = path, constants, places, codes
        self._functions: list[Function] = []
        self._returned: dict[str, list[ast.expr]] = {}

    def visit_Module(self, node: ast.Module) -> None:
        self._returned = {
            function.name: [line.value for line in statements(function) if isinstance(line, ast.Return) and line.value]
            for function in node.body
            if isinstance(function, ast.FunctionDef)
        }
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: Function) -> None:
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if argument.arg == "code" and default is not None:
                self._read(default, node.name)
        self._functions.append(node)
        self.generic_visit(node)
        self._functions.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for line in node.body:
            match line:
                case ast.Assign(targets=[ast.Name(id="default_code")], value=value):
                    self._read(value, node.name)
                case ast.AnnAssign(target=ast.Name(id="default_code" | "code"), value=ast.expr() as value):
                    self._read(value, node.name)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else _named(node.func)
        for value in self._code_of(node, name):
            self._read(value, name)
        self.generic_visit(node)

    def _code_of(self, call: ast.Call, name: str) -> Iterator[ast.expr]:
        """What is given as ``code``, by name or by place."""
        if name.startswith("CodeInterpreter"):
            return
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "code")
        place = self._places.get(name, -1)
        if 0 <= place < len(call.args):
            yield call.args[place]

    def _read(self, value: ast.expr, by: str) -> None:
        match value:
            case ast.Constant(value=None | "" | int()) | ast.Attribute(attr="code"):
                pass
            case ast.Name(id=name) if self._passed_on(name):
                pass
            case ast.Constant(value=str(code)):
                self._codes.raised[code].add(by)
            case ast.IfExp(body=first, orelse=second):
                self._read(first, by)
                self._read(second, by)
            case ast.Name(id=name) if isinstance(self._constants.get(name), ast.Constant):
                self._read(self._constants[name], by)
            case ast.Subscript(value=ast.Name(id=name)) if isinstance(table := self._constants.get(name), ast.Dict):
                for each in table.values:
                    self._read(each, by)
            case ast.Call(func=ast.Name(id=name)) if returned := self._returned.get(name):
                for each in returned:
                    self._read(each, by)
            case ast.Name(id=name) if assigned := self._assigned(name):
                for each in assigned:
                    self._read(each, by)
            case _:
                self._codes.unreadable.append(f"{self._path}:{value.lineno} {ast.unparse(value)}")

    def _passed_on(self, name: str) -> bool:
        """Whether it came from elsewhere: an argument, or a part of what was read or collected."""
        for function in self._functions:
            if any(argument.arg == name for argument in _arguments(function)):
                return True
            for node in ast.walk(function):
                match node:
                    case ast.For(target=ast.Tuple() as names) | ast.Assign(targets=[ast.Tuple() as names]):
                        if any(_named(each) == name for each in names.elts):
                            return True
        return False

    def _assigned(self, name: str) -> list[ast.expr]:
        """What the function in hand assigns to ``name``."""
        found: list[ast.expr] = []
        for node in ast.walk(self._functions[-1]) if self._functions else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found.append(value)
                case ast.NamedExpr(target=ast.Name(id=target), value=value) if target == name:
                    found.append(value)
        return found


def _arguments(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


DOCS = Path(__file__).parents[2] / "docs"


def test_every_code_in_the_source_stands_in_the_table() -> None:
    assert not codes_in().unreadable, "what is given as a code must be a text, a name of one, or another error's code"
    assert sorted(set(codes_in().raised) - set(CODES)) == [], "add a row to antiphon/errors/codes.py"


def test_every_row_of_the_table_is_used() -> None:
    unused = set(CODES)
    for path, tree in modules(SOURCE).items():
        if path != SOURCE / "errors" / "codes.py" and unused.intersection(WORD.findall(path.read_text("utf-8"))):
            unused -= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert unused == set(), "remove the row from antiphon/errors/codes.py"


def test_a_row_names_every_class_that_is_raised_with_its_code() -> None:
    wrong = []
    for code, raisers in codes_in().raised.items():
        kinds = [kind for name in raisers if isinstance(kind := getattr(antiphon.errors, name, None), type)]
        wrong += [(code, kind.__name__) for kind in kinds if kind not in CODES[code].errors]
    assert wrong == []


def test_the_api_answers_with_the_status_of_the_table() -> None:
    answered = {(code, kind): answer_to(kind("No.", code=code)).status for code in CODES for kind in CODES[code].errors}
    assert answered == {(code, kind): row.status for code, row in CODES.items() for kind in row.errors}


def test_a_row_says_in_one_sentence_what_its_code_means() -> None:
    assert [row.meaning for row in CODES.values() if not re.fullmatch(r"[A-Z`].*\.", row.meaning)] == []
    assert [code for code, row in CODES.items() if (row.status is not None) is not bool(row.errors)] == []


def test_a_code_from_outside_has_the_status_of_its_class() -> None:
    class Strange(antiphon.errors.ConflictError):
        default_code = "strange"

    assert answer_to(Strange("It failed.")).status == 409


def test_the_page_of_errors_has_each_code_once_with_its_meaning() -> None:
    rows = re.findall(r"^\| (?:(\d+) \| )?`([\w-]+)` \| (.+?) \|(?: `\w.*)?$", tables(), re.MULTILINE)
    shown = [(code, status and int(status), meaning.replace(r"\|", "|")) for status, code, meaning in rows]
    assert sorted(shown) == sorted((code, row.status or "", row.meaning) for code, row in CODES.items())


def test_the_page_of_the_api_names_every_status() -> None:
    section = (DOCS / "api.md").read_text("utf-8").partition("## Errors")[2].partition("\n## ")[0]
    named = {int(status) for row in re.findall(r"(?m)^\| ([\d, ]+) \|", section) for status in row.split(",")}
    assert named == {row.status for row in CODES.values() if row.status is not None}


def test_a_code_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        'WRONG = {1: "first", 2: "second"}\n'
        "class Fault(AntiphonError):\n"
        '    default_code = "fault"\n'
        "def made(code: str, other: Fault) -> Fault:\n"
        "    return Fault('x', code=code) or Fault('x', code=other.code)\n"
        "def raised(n: int) -> None:\n"
        '    made("by_place", Fault("x"))\n'
        '    raise Fault("x", code="one" if n else f"two{n}")\n'
        "def looked_up(n: int) -> None:\n"
        "    if code := WRONG[n]:\n"
        '        made(code, Fault("x"))\n'
    )
    found = codes_in(tmp_path)
    assert set(found.raised) == {"fault", "by_place", "one", "first", "second"}
    assert found.unreadable == ["module.py:8 f'two{n}'"]
