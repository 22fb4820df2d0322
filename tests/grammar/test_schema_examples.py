"""The examples in the docstrings of `antiphon.grammar`: schemas in, what the engine is shown of them, and doctests."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest

import antiphon.grammar
import antiphon.grammar.schema
from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.schema import compile_schema
from antiphon.tokens import ByteTokenizer

TOKENIZER = ByteTokenizer(["<eos>"])
VOCABULARY = Vocabulary(TOKENIZER, [256])
LABELS = ("schema", "engine", "relaxed", "accepts", "refuses", "rejects")
LINE = re.compile(rf"    (?:({'|'.join(LABELS)}) )? +(.*)")


@dataclass(frozen=True)
class Example:
    """The text behind each label."""

    place: str
    parts: dict[str, str]

    def texts(self, label: str) -> list[str]:
        """The JSON texts of a label, one after another."""
        decoder, text, texts = json.JSONDecoder(), self.parts.get(label, ""), []
        while text:
            _, end = decoder.raw_decode(text)
            texts.append(text[:end])
            text = text[end:].lstrip()
        return texts


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for module in iter_modules(package.__path__, package.__name__ + "."):
        yield import_module(module.name)


def examples(module: ModuleType) -> Iterator[Example]:
    parts: dict[str, str] = {}
    label = ""
    for line in [*(module.__doc__ or "").splitlines(), "end"]:
        found = LINE.fullmatch(line)
        if parts and (found is None or found[1] == "schema"):
            yield Example(module.__name__.rpartition(".")[2], parts)
            parts = {}
        if found is not None and (found[1] or parts):
            label = found[1] or label
            parts[label] = f"{parts.get(label, '')} {found[2]}".strip()


SCHEMA_MODULES = list(modules(antiphon.grammar.schema))
EXAMPLES = [example for module in SCHEMA_MODULES for example in examples(module)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.place}: {example.parts['schema'][:60]}")
def test_a_schema_of_the_docstrings_is_enforced_as_they_say(example: Example) -> None:
    schema = json.loads(example.parts["schema"])
    compiled = compile_schema(schema)
    assert spelled_as(example.parts["engine"], json.dumps(compiled.engine, ensure_ascii=False))
    assert [relaxation.path for relaxation in compiled.relaxed] == example.parts.get("relaxed", "").split()
    sampled = {text: passes(schema, text) for label in LABELS[3:] for text in example.texts(label)}
    assert [text for text, taken in sampled.items() if not taken] == example.texts("refuses")
    faulty = [text for text, taken in sampled.items() if taken and compiled.fault(text) is not None]
    assert faulty == example.texts("rejects")
    assert example.texts("accepts"), "an example shows a text that is accepted"
    assert example.texts("refuses") or example.texts("rejects"), "and one that is not"


def spelled_as(shown: str, text: str) -> bool:
    """Whether ``shown`` is the text, but for ``…``, which stands for a part that the example leaves out."""
    return re.fullmatch(".+".join(map(re.escape, shown.split("…"))), text) is not None


def passes(schema: object, text: str) -> bool:
    """Whether the grammar lets the text through."""
    matcher = compile_grammar(chain(Json(schema, "s"), EndOfTurn()), VOCABULARY).matcher()  # type: ignore[arg-type]
    matcher.consume([*TOKENIZER.encode(text), 256])
    return matcher.accepting


DOCTESTS = [
    test
    for package in (antiphon.grammar, antiphon.grammar.schema)
    for module in modules(package)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module)
    if test.examples
]


@pytest.mark.parametrize("test", DOCTESTS, ids=lambda test: test.name.removeprefix("antiphon.grammar."))
def test_a_session_of_the_docstrings_goes_as_they_say(test: doctest.DocTest) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
    assert outcome.failed == 0, "".join(report)
    assert outcome.attempted > 0


@pytest.mark.parametrize("module", SCHEMA_MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_module_of_schemas_has_an_example(module: ModuleType) -> None:
    own = {example.place for example in EXAMPLES} | {test.name.rpartition(".")[2] for test in DOCTESTS}
    assert module.__name__.rpartition(".")[2] in own
