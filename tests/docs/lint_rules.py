"""The rules of docs/lint.md, from the table of rules, with an example for each."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.formats.openchatml.lint import RULES, is_mended
from antiphon.formats.openchatml.rules import TextRule
from kit.lint_examples import EXAMPLES, HARMONY, HEADER

LONGEST = 400


def rules() -> str:
    """The table of the rules, and a section for each."""
    rows = ["| rule | clause | § | level | mended | what it requires |\n|---|---|---|---|---|---|\n"]
    for rule in RULES.values():
        name = f"[`{rule.name}`](#{rule.name})" if rule.name in EXAMPLES else f"`{rule.name}`"
        fixed = "yes" if is_mended(rule) else ""
        rows.append(f"| {name} | {rule.clause} | {rule.section} | {rule.level} | {fixed} | {_cell(rule.what)} |\n")
    sections = (line for rule in RULES.values() if rule.name in EXAMPLES for line in _section(rule))
    return f"{''.join(rows)}\n" + "\n".join(sections)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _section(rule: TextRule) -> Iterator[str]:
    fixed = ", mended by `--fix`" if is_mended(rule) else ""
    profile = ", with the profile of Harmony" if rule.name in HARMONY else ""
    yield f"### {rule.name}\n\n{_cell(rule.what)} Level: {rule.level}{fixed}{profile}.\n"
    for title, example in zip(("Not", "But"), EXAMPLES[rule.name], strict=True):
        yield f"{title}:\n\n```text\n{_shown(example)}\n```\n"


def _shown(example: str) -> str:
    """An example as it is written; bytes that are not UTF-8 as their number."""
    text = example.removeprefix("!").removeprefix(HEADER).rstrip("\n")
    text = "".join(f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in text)
    return text if len(text) <= LONGEST else f"{text[:60]}…"
