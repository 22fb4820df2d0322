"""The suite proves itself: the small reader beside it passes two levels, and the suite sees nearly any fault in it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import accumulate, chain
from types import CodeType, ModuleType

from antiphon.cli.conformance import load, narrowed, shipped
from antiphon.formats.openchatml import Case, Implementation, Level, run_conformance
from mutants.mutations import Mutation, mutations_of

READER = (shipped() / "example_reader.py").read_bytes()
REPORT = (shipped() / "example_report.py").read_bytes().partition(b"\n\nif __name__")[0]
STEP = 6
EQUAL = {
    "return None": "falsy as False is, of a body that is not of its type",
    r"fence = re.compile(r'''[ \r\n]*---[ \t]*\r?\n''').match(text, begin)": "a tab before a fence is no YAML",
}
"""Faults that change nothing that a report may say: the line of the source, and why."""

_CLASS = re.compile(r"(?<!\\)\[\^?((?:\\.|[^\]\\])+)\]")
_MEMBER = re.compile(r"(?:\\.|[^\\])(?:-(?:\\.|[^\\]))?")
_ALTERNATIVES = re.compile(r"(?<=\()[^()]*\|[^()]*(?=\))|^[^()]+\|[^()]+$")
_QUANTIFIER = re.compile(r"(?<=[\])\w.])[*+?]|(?<!\\)\^(?!\])|\\Z")


def suite() -> list[Case]:
    """Its first two levels, long transcripts last."""
    return list(_cases())


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(sorted(narrowed(load(shipped()), Level.CHOICES, ""), key=lambda case: len(case.input)))


@cache
def compiled(name: str, source: bytes) -> CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def built(reader: bytes, report: bytes) -> Implementation:
    """The program that two sources are."""
    for name, source in (("example_reader", reader), ("example_report", report)):
        module = sys.modules[name] = ModuleType(name)
        exec(compiled(name, source), module.__dict__)
    implementation: Implementation = sys.modules.pop("example_report").report
    del sys.modules["example_reader"]
    return implementation


def faults(source: bytes) -> Iterator[Mutation]:
    """Faults of code, and those of words: one that a list lacks, a part that a pattern lacks."""
    yield from mutations_of(source)
    lines = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Tuple(elts) | ast.Set(elts) | ast.List(elts) if len(elts) > 1:
                words = [word for word in elts if isinstance(word, ast.Constant) and isinstance(word.value, str)]
                changes = [(word, '"another"') for word in words]
            case ast.Constant(str() as text) if "content_type" in text.split()[1:]:
                changes = [(node, repr(text.replace(word, ""))) for word in text.split()]
            case ast.Constant(str() as text) if text.isprintable() and re.search(r"[\[(\\|^]\S|[\])]", text):
                changes = [(node, f"r'''{part}'''") for part in patterns(text)]
            case _:
                continue
        for word, instead in changes:
            start = lines[word.lineno - 1] + word.col_offset
            end = lines[(word.end_lineno or 0) - 1] + (word.end_col_offset or 0)
            yield Mutation(start, end, instead, "word", word.lineno)


def patterns(text: str) -> Iterator[str]:
    """The pattern without one member of a class, one alternative, one quantifier or anchor."""
    for found in _CLASS.finditer(text):
        members = list(_MEMBER.finditer(found[1]))
        for member in members if len(members) > 1 else ():
            start = found.start(1)
            yield text[: start + member.start()] + text[start + member.end() :]
    for found in _ALTERNATIVES.finditer(text):
        words = found[0].split("|")
        for i in range(len(words)):
            yield text[: found.start()] + "|".join(words[:i] + words[i + 1 :]) + text[found.end() :]
    for found in _QUANTIFIER.finditer(text):
        yield text[: found.start()] + {"*": "+"}.get(found[0], "") + text[found.end() :]


def killer(implementation: Implementation, cases: list[Case]) -> Case | None:
    """The first case that it does not pass."""
    return next((outcome.case for outcome in run_conformance(cases, implementation) if not outcome.passed), None)


@cache
def all_faults() -> list[tuple[bytes, Mutation]]:
    """Each with the source that it is a fault of."""
    return [(source, fault) for source in (READER, REPORT) for fault in sorted(set(faults(source)))]


def faulty(seed: int, step: int) -> Iterator[tuple[str, Implementation]]:
    """The program with one fault, and the line that has it: of each so many faults one."""
    for source, fault in all_faults()[seed::step]:
        changed = fault.apply(source)
        with suppress(SyntaxError, re.error):
            program = built(*((changed, REPORT) if source is READER else (READER, changed)))
            yield changed.splitlines()[fault.line - 1].decode().strip(), program


def test_the_small_reader_passes_two_levels() -> None:
    assert killer(built(READER, REPORT), suite()) is None


def test_the_suite_sees_every_fault_in_it_but_those_that_change_nothing() -> None:
    cases, unseen = suite(), []
    for line, program in faulty(0, STEP):
        case = killer(program, cases)
        if case is None:
            unseen.append(line)
        else:  # what saw one fault often sees the next
            cases.remove(case)
            cases.insert(0, case)
    assert [line for line in unseen if line not in EQUAL] == []
    assert len(all_faults()) >= 700


def test_each_clause_of_the_suite_has_a_case_that_sees_a_fault() -> None:
    still_open = {clause for case in suite() for clause in case.clauses}
    for _, program in chain.from_iterable(faulty(seed, 30) for seed in range(30)):
        cases = [case for case in suite() if not still_open.isdisjoint(case.clauses)]
        if not cases:
            break
        if case := killer(program, cases):
            still_open -= set(case.clauses)
    assert still_open == set()
