"""Finds faults and doubts in a transcript by named rules, and mends those that can be mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from antiphon.conversation import visible_to_user
from antiphon.formats.openchatml import rules
from antiphon.formats.openchatml.finding import Severity

from .own_rules import OWN_RULES
from .rule import EDITS, Diagnostic, Edit, LintedText

RULES = {**rules.RULES, **{rule.name: rule for rule, _ in OWN_RULES}}
"""Every rule by its name: those of readers, and our own."""
MAX_ROUNDS = 1000
"""Rounds of mending; each mends at least one finding of every frame that has one."""


def is_mended(rule: rules.Rule) -> bool:
    """Whether what breaks the rule can be mended."""
    return rule.mend is not None or rule.name in EDITS


def findings(
    text: str, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False, harmony: bool = False
) -> list[Diagnostic]:
    """Finds what the rules report of a transcript, in its order.

    ``levels``: the levels of some rules by name, in place of those of the table. ``fragment``: a transcript
    without a header is accepted. ``harmony``: the rules of HIP-1 whatever the header says. Never raises on what it
    reads.
    """
    return _found(LintedText(text, fragment=fragment, harmony=harmony), levels or {})


def _found(source: LintedText, levels: Mapping[str, Severity]) -> list[Diagnostic]:
    found = []
    for finding in source.findings:
        at = finding.position.offset or 0
        level = levels.get(finding.rule, Severity.WARNING if finding.warning else Severity.ERROR)
        end, fix = source.position(source.end_of(at)), _fix(finding.rule, source, at)
        found.append(
            Diagnostic(finding.rule, level, finding.message, finding.position, end, finding.code, finding.hint, fix)
        )
    for rule, check in OWN_RULES:
        level = levels.get(rule.name, rule.level)
        for spot in check(source) if level is not Severity.OFF else ():
            start, end = source.position(spot.start), source.position(spot.end)
            fix = _fix(rule.name, source, spot.start)
            found.append(Diagnostic(rule.name, level, spot.message, start, end, None, spot.hint, fix))
    reported = [diagnostic for diagnostic in found if diagnostic.level is not Severity.OFF]
    return sorted(reported, key=lambda diagnostic: diagnostic.start.offset or 0)


def _fix(name: str, source: LintedText, at: int) -> Edit | None:
    edit = EDITS[name](source, at) if name in EDITS else source.mend(RULES[name], at)
    return edit if edit is not None and source.text[edit.start : edit.end] != edit.text else None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text and what a mend is judged by: the edits of a round, its errors, and the texts that users are shown.

    ``stuck`` are the errors that nothing mends.
    """

    text: str
    edits: tuple[Edit, ...]
    errors: int
    stuck: int
    shown: Counter[str]

    def allows(self, after: _Reading) -> bool:
        """Whether a change to another reading adds no error and shows nothing that was hidden."""
        if after.stuck > self.stuck or self.errors == 0 < after.errors:
            return False
        return all(any(text in old for old in self.shown) for text in after.shown - self.shown)


def _reading(source: LintedText, levels: Mapping[str, Severity]) -> _Reading:
    found = _found(source, levels)
    errors = [_fix(one.rule, source, one.position.offset or 0) for one in source.findings if not one.warning]
    shown = Counter(frame.message.text for frame in source.frames if visible_to_user(frame.message))
    return _Reading(source.text, tuple(_edits(source, found)), len(errors), errors.count(None), shown)


def _edits(source: LintedText, found: Iterable[Diagnostic]) -> Iterator[Edit]:
    """The edits of a round in their order: of the mends of one frame the first, errors before doubts; none overlap."""
    edits: dict[object, Edit] = {}
    for diagnostic in sorted(found, key=lambda diagnostic: diagnostic.code is None):
        if (edit := diagnostic.fix) is not None:
            edits.setdefault(edit if diagnostic.rule in EDITS else id(source.frame_at(edit.start)), edit)
    end = 0
    for edit in sorted(edits.values(), key=lambda edit: (edit.start, edit.end)):
        if edit.start >= end:
            yield edit
            end = edit.end


def mended(
    text: str, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False, harmony: bool = False
) -> str:
    """The transcript with every finding mended that has a fix; those that then have one too.

    A frame gets one mend a round. A fix that would add an error, or show what was hidden, is not applied.
    """

    def read(changed: str) -> _Reading:
        return _reading(LintedText(changed, fragment=fragment, harmony=harmony), levels or {})

    def apply(before: _Reading, edits: Sequence[Edit]) -> _Reading:
        """The reading with those edits that it allows; where not all are, each half by itself, the later one first."""
        after = read(edited(before.text, edits))
        if before.allows(after):
            return after
        if len(edits) == 1:
            return before
        half = len(edits) // 2
        return apply(apply(before, edits[half:]), edits[:half])

    reading = read(text)
    for _ in range(MAX_ROUNDS):
        changed = apply(reading, reading.edits) if reading.edits else reading
        if changed.text == reading.text:
            break
        reading = changed
    return reading.text


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made; one that begins inside another is left out."""
    parts: list[str] = []
    at = 0
    for edit in sorted(set(edits), key=lambda edit: (edit.start, edit.end)):
        if edit.start >= at:
            parts += (text[at : edit.start], edit.text)
            at = edit.end
    return "".join((*parts, text[at:]))
