"""What is wrong, or doubtful, in a transcript by named rules, and the transcript with what can be mended mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from antiphon.formats.openchatml.reader import validate

from .linted_text import LintedText
from .own_table import OWN_RULES
from .reading_rules import READING_RULES
from .rule import Diagnostic, Edit, LintRule, Severity

RULES = {rule.name: rule for rule in (*READING_RULES, *OWN_RULES)}
"""Every rule by its name, in the order of a transcript."""
MAX_ROUNDS = 1000
"""Rounds of mending; each mends at least one finding of every frame that has one."""


def findings(
    text: str, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False, harmony: bool = False
) -> list[Diagnostic]:
    """What the rules find in a transcript, in its order.

    ``levels``: the levels of some rules by name, in place of those of the table. ``fragment``: a transcript
    without a header is accepted. ``harmony``: the rules of HIP-1 whatever the header says. Never raises on what it
    reads.
    """
    chosen = levels or {}
    source = LintedText(text)
    found = [*_read(source, chosen, fragment=fragment, harmony=harmony), *_checked(source, chosen)]
    reported = [diagnostic for diagnostic in found if diagnostic.level is not Severity.OFF]
    return sorted(reported, key=lambda diagnostic: diagnostic.start.offset or 0)


def mended(
    text: str, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False, harmony: bool = False
) -> str:
    """The transcript with every finding mended that has a fix; those that then have one too."""
    for _ in range(MAX_ROUNDS):
        found = findings(text, levels=levels, fragment=fragment, harmony=harmony)
        edits = [diagnostic.fix for diagnostic in found if diagnostic.fix is not None]
        if not edits:
            break
        text = edited(text, edits)
    return text


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made; one that begins inside another is left out."""
    parts: list[str] = []
    at = 0
    for edit in sorted(set(edits), key=lambda edit: (edit.start, edit.end)):
        if edit.start >= at:
            parts += (text[at : edit.start], edit.text)
            at = edit.end
    return "".join((*parts, text[at:]))


def _read(source: LintedText, levels: Mapping[str, Severity], *, fragment: bool, harmony: bool) -> Iterator[Diagnostic]:
    for finding in validate(source.text, fragment=fragment, harmony=harmony):
        at = finding.position.offset or 0
        rule = RULES[finding.rule]
        level = levels.get(rule.name, Severity.WARNING if finding.warning else Severity.ERROR)
        end = source.position(source.end_of(at))
        fix = _fix(rule, source, at)
        yield Diagnostic(rule.name, level, finding.message, finding.position, end, finding.code, finding.hint, fix)


def _checked(source: LintedText, levels: Mapping[str, Severity]) -> Iterator[Diagnostic]:
    for rule in OWN_RULES:
        level = levels.get(rule.name, rule.level)
        if rule.check is None or level is Severity.OFF:
            continue
        for spot in rule.check(source):
            start, end = source.position(spot.start), source.position(spot.end)
            fix = _fix(rule, source, spot.start)
            yield Diagnostic(rule.name, level, spot.message, start, end, None, spot.hint, fix)


def _fix(rule: LintRule, source: LintedText, at: int) -> Edit | None:
    edit = rule.fix(source, at) if rule.fix is not None else None
    return edit if edit is not None and source.text[edit.start : edit.end] != edit.text else None
