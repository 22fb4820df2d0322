"""Small faults that a source can be given, one at a time: a comparison's edge, a lost call, a dropped lock.

Annotations, decorators, docstrings, assertions and the words of messages are left as they are: nothing runs on them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}  # fmt: skip
_OPERATIONS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"), ast.Sub: ("-", "+"), ast.Mult: (r"\*", "+"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Pow: (r"\*\*", "*"), ast.BitOr: (r"\|", "&"), ast.BitAnd: ("&", "|"), ast.LShift: ("<<", ">>"),
}  # fmt: skip
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ALIAS = re.compile(r"_?[A-Z][A-Za-z]*[a-z]")
_TABLE = 16
"""Entries of a table whose constants are left as they are: one test compares all of it, or none does."""
_WORDS_ONLY = frozenset({"hint", "message", "match"})
"""Arguments that only change what is read by people."""


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """``replacement`` stands for the bytes from ``start`` to ``end`` of a source; ``line`` counts from 1."""

    start: int
    end: int
    replacement: str
    kind: str
    line: int

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]


@cache
def mutations_of(source: bytes) -> Sequence[Mutation]:
    """Every mutation of a source, by place, whether still Python or not; none twice."""
    return sorted(set(_Mutator(source).mutations()))


def compiles(source: bytes) -> bool:
    """Whether a source is Python."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class _Mutator:
    """Finds the mutations of one source."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]

    def mutations(self) -> Iterator[Mutation]:
        for node in _walk(ast.parse(self._source)):
            for of in (self._operators, self._values, self._calls, self._branches, self._statements):
                yield from of(node)

    def _operators(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare(left, ops, comparators):
                for op, (before, after) in zip(ops, pairwise([left, *comparators]), strict=True):
                    yield from self._between(before, after, _COMPARISONS[type(op)], "comparison")
            case ast.BoolOp(op, values):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                for before, after in pairwise(values):
                    yield from self._between(before, after, words, "and, or")
            case ast.BinOp(left, op, right) if type(op) in _OPERATIONS:
                yield from self._between(left, right, _OPERATIONS[type(op)], "operator")
            case ast.AugAssign(target, op, value) if type(op) in _OPERATIONS:
                yield from self._between(target, value, _OPERATIONS[type(op)], "operator")
            case ast.UnaryOp(ast.Not(), operand):
                yield self._instead(node, f"({self._text(operand)})", "not removed")

    def _values(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Constant(bool() as value):
                yield self._instead(node, str(not value), "constant")
            case ast.Constant(int() as value):
                yield self._instead(node, str(value + 1), "constant")
            case ast.Constant(float() as value):
                yield self._instead(node, str(value * 2 or 1.0), "constant")
            case ast.keyword("code", ast.Constant(str()) as value):
                yield self._instead(value, '"another"', "code")

    def _calls(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Call(ast.Name(name) as function) if name in _SWAPPED:
                yield self._instead(function, _SWAPPED[name], "function")
            case ast.Call(ast.Attribute(attr="shield"), [argument]):
                yield self._instead(node, self._text(argument), "shield removed")
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg not in _WORDS_ONLY:
                    yield self._without(keyword)

    def _branches(self, node: ast.AST) -> Iterator[Mutation]:
        tests: list[ast.expr] = []
        match node:
            case ast.If(test) | ast.While(test) | ast.IfExp(test):
                tests = [test]
            case ast.comprehension(ifs=ifs):
                tests = ifs
            case ast.Break():
                yield self._instead(node, "continue", "break")
            case ast.Continue():
                yield self._instead(node, "break", "continue")
            case ast.With(items, body) | ast.AsyncWith(items, body) if not any(item.optional_vars for item in items):
                start, end = self._start(node), self._start(body[0])
                head = self._source[start:end]
                indent = head[head.rindex(b":") :].decode()
                yield Mutation(start, end, f"if True{indent}", "context removed", node.lineno)
        for test in tests:
            if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
                yield self._instead(test, f"(not ({self._text(test)}))", "condition")

    def _statements(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Expr(ast.Call() | ast.Await()) | ast.Delete():
                yield self._instead(node, "pass", "statement removed")
            case ast.Raise(exc) if not (isinstance(exc, ast.Name) and exc.id == "NotImplementedError"):
                yield self._instead(node, "pass", "raise removed")
            case ast.Assign([ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
                yield self._instead(node, "pass", "assignment removed")
            case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
                yield self._instead(node, "return None", "return")

    def _between(self, before: ast.expr, after: ast.expr, words: tuple[str, str], kind: str) -> Iterator[Mutation]:
        """The operator that stands between two expressions, parentheses and comments beside it."""
        start = self._end(before)
        gap = self._source[start : self._start(after)].decode()
        word = rf"\b{words[0]}\b" if words[0][0].isalpha() else words[0]
        if found := re.search(word, gap):
            at = start + len(gap[: found.start()].encode())
            yield Mutation(at, at + len(found[0].encode()), words[1], kind, before.end_lineno or 0)

    def _instead(self, node: ast.expr | ast.stmt, replacement: str, kind: str) -> Mutation:
        return Mutation(self._start(node), self._end(node), replacement, kind, node.lineno)

    def _without(self, keyword: ast.keyword) -> Mutation:
        end = self._end(keyword)
        comma = re.match(rb"\s*,\s*", self._source[end:])
        return Mutation(
            self._start(keyword), end + (comma.end() if comma else 0), "", "argument removed", keyword.lineno
        )

    def _text(self, node: ast.expr) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is below it, without what does not run, or only builds an object."""
    yield node
    for name, child in _children(node):
        if not _skipped(node, name, child):
            yield from _walk(child)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


def _skipped(parent: ast.AST, field: str, child: ast.AST) -> bool:
    if field in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(parent, ast.Call):
        return True
    match child:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.Assign([ast.Attribute()]) if isinstance(parent, ast.FunctionDef) and parent.name == "__init__":
            return isinstance(child.value, (ast.Name, ast.Constant))
        case ast.Constant() if isinstance(parent, (ast.Dict, ast.Tuple, ast.List)):
            return len(parent.values if isinstance(parent, ast.Dict) else parent.elts) > _TABLE
        case ast.Assign([ast.Name(id)]):
            return id == "__all__" or _ALIAS.fullmatch(id) is not None
    return False
