"""The page that states the format: it leaves no requirement and no decision of it out, and names rules that exist."""

from __future__ import annotations

import re

from kit.openchatml_abnf import GRAMMAR
from spec.citations import defined

DOCS = GRAMMAR.parent
PAGE = (DOCS / "openchatml-format.md").read_text("utf-8")


def test_every_requirement_is_in_a_clause() -> None:
    cited = {int(number) for number in re.findall(r"OCM-(\d+)", PAGE)}
    for first, last in re.findall(r"OCM-(\d+) … OCM-(\d+)", PAGE):
        cited |= set(range(int(first), int(last) + 1))
    assert cited == set(range(1, 171))


def test_every_open_point_has_its_decision_linked() -> None:
    decided = {id for id in defined() if id.startswith("A-O")}
    linked = {
        name
        for name, anchor in re.findall(r"\[(A-O\d+)\]\(internals/decisions\.md#(a-o\d+)\)", PAGE)
        if name.lower() == anchor
    }
    assert linked == decided


def test_the_rules_that_clauses_name_are_in_the_grammar() -> None:
    rules = set(re.findall(r"^([a-z-]+) +=", GRAMMAR.read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"rules? `([a-z-]+)`", PAGE))
    assert named
    assert named <= rules


def test_every_rule_is_used() -> None:
    text = re.sub(r";[^\n]*", "", GRAMMAR.read_text("utf-8"))
    rules = re.findall(r"^([a-z-]+) +=", text, re.MULTILINE)
    used = set(re.findall(r"[a-z][a-z-]*", re.sub(r'^[a-z-]+ +=|"[^"]*"|%\S+', "", text, flags=re.MULTILINE)))
    assert set(rules) - used == {"transcript", "fragment"}
