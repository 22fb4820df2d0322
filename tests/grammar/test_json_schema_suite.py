"""The official suite of JSON Schema, as the source distribution of `jsonschema` has it: ``make oracles`` fetches it.

An instance is written in the order of its schema's objects, which is the one that a grammar lets through.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer
from kit.harmony_oracles import FOLDER
from kit.own_order import OwnOrder

SUITE = FOLDER / "json-schema"
TOKENIZER = ByteTokenizer(["<eos>"])
VOCABULARY = Vocabulary(TOKENIZER, [256])
REMOTE = "http://localhost:1234"
"""Where the suite's other documents are: nothing is fetched."""
DIALECTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": None}


def groups(draft: str) -> Iterator[tuple[str, dict[str, Any]]]:
    files = sorted((SUITE / draft).glob("*.json"))
    assert len(files) > 30, "no suite: run `make oracles`"
    for file in files:
        for group in json.loads(file.read_text()):
            yield f"{file.stem}: {group['description']}", group


def of_draft(schema: Any, draft: str) -> Any:
    """The schema with its draft named, which the files of the older drafts leave to their folder."""
    dialect = DIALECTS[draft]
    return {"$schema": dialect, **schema} if dialect is not None and isinstance(schema, dict) else schema


def takes(grammar: CompiledGrammar, text: str) -> bool:
    """Whether a reply may say the text, up to the check of the finished value."""
    matcher = grammar.matcher()
    matcher.consume([*TOKENIZER.encode(text), 256])
    return matcher.accepting and grammar.schemas["s"].fault(text) is None


def spelled(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("draft", DIALECTS)
def test_the_suite_of_a_draft(draft: str, strict: bool) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    wrong, refused = [], []
    for name, group in groups(draft):
        schema = of_draft(group["schema"], draft)
        try:
            grammar = compile_grammar(chain(Json(schema, "s", strict=strict), EndOfTurn()), VOCABULARY)
        except RequestError as error:
            refused.append((name, group, error))
            continue
        order = OwnOrder(schema)
        for test in group["tests"]:
            taken = takes(grammar, spelled(order.write(test["data"])))
            taken = taken or (not test["valid"] and takes(grammar, spelled(test["data"])))
            seen[test["valid"], taken] += 1
            if taken and not test["valid"]:
                wrong.append((name, test["description"]))
    assert wrong == []
    # What is lost is mostly valid only where formats mean nothing; ours are asserted.
    share = 0.96 if strict else 0.97
    assert seen[True, True] >= share * (seen[True, True] + seen[True, False]), seen
    assert [name for name, _, error in refused if not error.param or not error.param.startswith("s")] == []
    lost = [name for name, group, _ in refused if not is_void(group) and REMOTE not in json.dumps(group)]
    assert len(lost) <= (40 if strict else 12), lost


def is_void(group: dict[str, Any]) -> bool:
    """Whether the suite has nothing that fits the schema: a request for it is an error."""
    return not any(test["valid"] for test in group["tests"])
