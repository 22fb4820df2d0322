"""Writes docs/lint.md from the table of rules.

Run as a script it prints the page: ``python tests/docs/lint_rules.py > docs/lint.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from antiphon.formats.openchatml.lint import RULES, is_mended
from antiphon.formats.openchatml.rules import TextRule
from kit.lint_examples import EXAMPLES, HARMONY, HEADER

LONGEST = 400
HEAD = """\
# Formatting and linting transcripts

Two commands for OpenChatML transcripts: `fmt` writes them in one form, `lint` checks them by the rules below. The page
is made from the table of rules (`python tests/docs/lint_rules.py`).

## antiphon fmt

`antiphon fmt FILE…` writes transcripts in canonical form, in place: a fenced header with the version quoted, heads in
the grammar's order, escapes instead of literal blocks where both can say it, one line break between frames. Messages
and the header's values stay what they are, and the canonical form of a canonical transcript is itself. A header with
comments keeps its lines. A folder stands for its `*.ocm` and `*.openchatml`, `-` (or no file) for standard input,
which goes to standard output. A file that is not valid is reported and left as it is (exit code 1).

| option | meaning |
|---|---|
| `--check` | change nothing; exit code 1 when a file would change |
| `--diff` | change nothing; print the change, as `patch` takes it |
| `--from harmony` | Harmony text, in folders `*.harmony` |
| `--fragment` | accept a transcript without a header |

## antiphon lint

`antiphon lint FILE…` finds what is wrong, or doubtful, by the rules below, each with its place, the line and a hint.
The exit code is 1 when there is an error; `--fail-on warning` or `info` makes it stricter, `off` never fails.

| option | meaning |
|---|---|
| `--fix` | mend in place what can be mended, and report the rest |
| `--select`, `--ignore` | rules by name, with commas and `*`: `'head-*,call-*'`; what is off is on when selected |
| `--level` | other levels: `--level head-order=error,plan-hidden=off` |
| `--json` | the findings as JSON, for programs |
| `--profile harmony` | the rules of HIP-1 too |
| `--from harmony` | Harmony text; its rules are the [incidents](errors.md#incidents) of its parser |
| `--rules` | list the rules |

```python
from antiphon.formats.openchatml.lint import Severity, findings, mended

text = '---\\nversion: "2.2"\\n---\\n<|start|>sytem<|message|>Hi<|end|>\\n'
[found] = findings(text, levels={"head-order": Severity.OFF})
assert (found.rule, found.level, str(found.start), str(found.end)) == ("role-unknown", Severity.ERROR, "4:10", "4:15")
assert mended(text) == text.replace("sytem", "system")
```

A `Diagnostic` has `rule`, `level`, `message`, `hint`, the specification's `code` where there is one, `start` and
`end` (`Position`: offset from 0, line and column from 1), and `fix`, an `Edit` of the text, or None. `--fix` leaves
a fix that `reveals`: users would be shown then what was hidden from them.

With [pre-commit](https://pre-commit.com):

```yaml
repos:
  - repo: https://example.org/antiphon  # where this repository is
    rev: v0.2.0
    hooks:
      - id: antiphon-fmt
      - id: antiphon-lint
        args: [--fail-on, warning]
      - id: antiphon-validate
```

## Rules

Errors are what the specification forbids: `antiphon validate` reports them too. The table has the clause of
[the format](openchatml-format.md) for each rule, and the section of the specification. Examples without a header (but
that of `header-missing`) have `version: "2.2"`.

A frame gets one mend at a time, and no mend changes a text. One that would add an error, or show what was hidden, is
left to people: `<|channel|>finl` is asked about, and an editor offers `final`.

| rule | clause | § | level | mended | what it requires |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    rows = []
    for rule in RULES.values():
        name = f"[`{rule.name}`](#{rule.name})" if rule.name in EXAMPLES else f"`{rule.name}`"
        fixed = "yes" if is_mended(rule) else ""
        rows.append(f"| {name} | {rule.clause} | {rule.section} | {rule.level} | {fixed} | {_cell(rule.what)} |\n")
    sections = (line for rule in RULES.values() if rule.name in EXAMPLES for line in _section(rule))
    return f"{HEAD}{''.join(rows)}\n" + "\n".join(sections)


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


if __name__ == "__main__":
    print(page(), end="")
