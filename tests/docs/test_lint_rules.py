"""The page of the linter has its rules, and the hooks for pre-commit run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from antiphon.cli.app import run
from antiphon.cli.files import SUFFIXES
from antiphon.formats.openchatml.lint import RULES
from docs.lint_rules import rules
from kit.lint_examples import EXAMPLES

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))


def test_the_page_has_a_row_for_each_rule_and_a_section_for_each_that_has_examples() -> None:
    page = rules()
    named = re.findall(r"^\| (?:\[`([\w-]+)`\]\(#\1\)|`(other)`) \|", page, re.MULTILINE)
    assert ["".join(names) for names in named] == list(RULES)
    sections = re.findall(r"^### ([\w-]+)\n\n.+\n\nNot:\n\n```text\n", page, re.MULTILINE)
    assert sections == [name for name in RULES if name in EXAMPLES]


def test_every_rule_has_a_name_a_sentence_and_examples() -> None:
    assert [name for name in RULES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []
    assert [rule.name for rule in RULES.values() if not re.fullmatch(r"[^ ].*\.", rule.what)] == []
    assert {*RULES} - {*EXAMPLES} == {"other"}


def test_every_rule_cites_a_clause_of_the_format_and_a_section_that_there_is() -> None:
    clauses = re.findall(r"^\* (\d+\.\d+) ", (ROOT / "docs" / "openchatml-format.md").read_text("utf-8"), re.MULTILINE)
    assert [rule.name for rule in RULES.values() if rule.clause not in clauses] == []
    decisions = (ROOT / "docs" / "internals" / "decisions.md").read_text("utf-8")
    sections = {"", *re.findall(r"^\* (§\d+): ", decisions, re.MULTILINE), *(f"HIP-1.{n}" for n in range(1, 9))}
    assert {rule.name: rule.section for rule in RULES.values() if rule.section not in sections} == {}


def test_there_is_a_hook_for_each_of_the_three() -> None:
    assert [hook["entry"] for hook in HOOKS] == ["antiphon fmt", "antiphon lint", "antiphon validate"]
    for hook in HOOKS:
        taken = [suffix for suffix in (".ocm", ".openchatml", ".md", ".ocml") if re.search(hook["files"], f"a{suffix}")]
        assert tuple(taken) == SUFFIXES["openchatml"]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_passes_good_files_and_fails_bad_ones(hook: dict[str, str], tmp_path: Path) -> None:
    command = hook["entry"].split()[1:]
    good, bad = tmp_path / "good.ocm", tmp_path / "bad.ocm"
    good.write_text('---\nversion: "2.2"\n---\n<|start|>user<|message|>Hi<|end|>\n')
    bad.write_text("<|start|>user<|message|>Hi")
    assert run([*command, str(good)]) == 0
    assert run([*command, str(good), str(bad)]) == 1
