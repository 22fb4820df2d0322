"""Finds faults and doubts in a transcript by named rules, and mends those that can be mended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.conversation import Channel, Role, visible_to_user
from antiphon.formats.openchatml import mends
from antiphon.formats.openchatml.body import has_tool_calls, is_function, is_object
from antiphon.formats.openchatml.finding import Severity, nearest
from antiphon.formats.openchatml.head import misspelled_controls
from antiphon.formats.openchatml.judges import is_unmarked_json, is_unmarked_plan
from antiphon.formats.openchatml.rules import RULES as READING_RULES
from antiphon.formats.openchatml.rules import TextRule
from antiphon.formats.openchatml.schemas import HEADER
from antiphon.formats.openchatml.spelling import BY_SPELLING, CONSTRAIN
from antiphon.formats.openchatml.yaml_header import read_otherwise

from .rule import EDITS, Diagnostic, Edit, LintedText, Spot, canonical_text

_KEYS: Mapping[str, Any] = HEADER["properties"]
_VERSION = re.compile(r"^[ \t{]*[\"']?version[\"']?[ \t]*:[ \t]*([^\s#,}]+)", re.MULTILINE)
_CONTROLS = "|".join(re.escape(spelling[2:]) for spelling in BY_SPELLING)
_CONTROL_LIKE = re.compile(rf"<\|(?<!<<\|)(?!{_CONTROLS})([a-z_]{{2,20}})\|?>")
_MARKERS = ("start_reflect", "start_introspect", "start_reason", "end_reflect", "end_introspect", "end_reason")


HEAD_ORDER = TextRule(
    "head-order", "5.3", "§15", "Attributes are in the grammar's order, in the start section.", mend=mends.respell,
    level=Severity.INFO,
)  # fmt: skip
Check = Callable[[LintedText], Iterator[Spot]]


# Rules of our own: transcripts that are valid, and may not mean what their author meant.

# -- the header -------------------------------------------------------------------------------------------------------


def bare_header(source: LintedText) -> Iterator[Spot]:
    if source.header is not None and not source.header_text.lstrip().startswith("---"):
        yield Spot(source.header_start, source.end_of(source.header_start), "the header has no fences")


def unquoted_version(source: LintedText) -> Iterator[Spot]:
    found = _VERSION.search(source.header_text) if source.header is not None else None
    if found and found[1][0] not in "\"'":
        start, end = (source.header_start + offset for offset in found.span(1))
        yield Spot(start, end, "the version is not quoted", "Unquoted, YAML reads 2.10 as the number 2.1.")


def otherwise_read(source: LintedText) -> Iterator[Spot]:
    yaml = source.text[source.header_start : source.yaml_end] if source.header is not None else ""
    for start, end in read_otherwise(yaml):
        message = f"{yaml[start:end]} is another value for readers of YAML 1.1"
        yield Spot(source.header_start + start, source.header_start + end, message, "In quotes it is text for all.")


def near_key(source: LintedText) -> Iterator[Spot]:
    fields = source.header.fields if source.header is not None else {}
    inner = ((fields.get(name), _KEYS[name]["properties"]) for name in ("generation_settings", "capabilities"))
    sections = [(fields, _KEYS), *inner]
    for values, known in sections:
        for key in values if isinstance(values, Mapping) else ():
            meant = nearest(str(key), known)
            if meant is not None and isinstance(values, Mapping) and meant not in values:
                yield from _key_spot(source, str(key), meant)


def _key_spot(source: LintedText, key: str, meant: str) -> Iterator[Spot]:
    found = re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", source.header_text)
    if found:
        start, end = (source.header_start + offset for offset in found.span())
        yield Spot(start, end, f"the key {key!r} is not known", f"Did you mean {meant}?")


# -- heads ------------------------------------------------------------------------------------------------------------


def disordered_head(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        if frame.head.canonical or frame.head.problems or frame.head.is_legacy_reply:
            continue
        edit = source.mend(HEAD_ORDER, frame.places.start.offset)
        if edit is not None and edit.text != frame.head_text:
            yield Spot(*source.head_span(frame), "the head is not in canonical form", f"It is {edit.text!r}.")


def legacy_reply(source: LintedText) -> Iterator[Spot]:
    allowed = source.header is None or source.header.capabilities.allows_role(Role.TOOL)
    for frame in source.frames:
        lacking = frame.head.call_id is None or frame.head.problems
        if frame.head.is_legacy_reply and not lacking and allowed:
            yield Spot(
                *source.head_span(frame), "the reply has its tool's name as role", "Write tool name=functions.x."
            )


def misplaced_intent(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if message.intent and not (message.role is Role.ASSISTANT and message.channel == Channel.COMMENTARY):
            channel = message.effective_channel
            yield Spot(
                *source.head_span(frame), f"intent={message.intent} stands on {channel}",
                "An intent is for an assistant's commentary.",
            )  # fmt: skip


def foreign_channel(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if message.role in (Role.SYSTEM, Role.DEVELOPER, Role.USER) and message.channel not in (None, Channel.FINAL):
            text = f"the {message.role}'s message is on {message.channel}"
            yield Spot(*source.head_span(frame), text, "analysis and commentary are the assistant's.")


def hidden_plan(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        if is_unmarked_plan(frame.message):
            hint = "A plan for the user has intent=preamble."
            yield Spot(*source.head_span(frame), "commentary to nobody is hidden", hint)


# -- calls and replies ------------------------------------------------------------------------------------------------


def unconstrained_call(source: LintedText) -> Iterator[Spot]:
    tokens = source.header.capabilities.tokens if source.header is not None else None
    if tokens is not None and CONSTRAIN.spelling not in tokens:
        return
    for frame in source.calls():
        call = frame.message
        if not frame.head.problems and is_function(call) and is_unmarked_json(call) and is_object(call.text):
            hint = "Write <|constrain|>json."
            yield Spot(*source.head_span(frame), "the call's JSON is not marked as JSON", hint)


def unanswered_call(source: LintedText) -> Iterator[Spot]:
    answered = {frame.message.call_id for frame in source.frames if frame.message.role is Role.TOOL}
    if any(frame.head.is_legacy_reply for frame in source.frames):
        return
    later = [frame for frame in source.frames if frame.message.role is Role.USER]
    last = later[-1].places.start.offset if later else -1
    for frame in source.calls():
        call_id = frame.message.call_id
        if call_id is not None and call_id not in answered and frame.places.start.offset < last:
            yield Spot(*source.head_span(frame), f"the call {call_id!r} has no reply, and the conversation goes on")


def json_calls(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if message.role is Role.ASSISTANT and not message.is_call and has_tool_calls(message.text):
            span = frame.places.body.offset, frame.places.footer.offset
            yield Spot(*span, "calls stand as JSON in a message's text", "A call is a frame of its own.")


# -- bodies -----------------------------------------------------------------------------------------------------------


def near_control(source: LintedText) -> Iterator[Spot]:
    """In all the text behind the header: in a misspelled head it is no frame that is read."""
    words = _CONTROL_LIKE.finditer(source.text, source.frames_at)
    for found, meant in misspelled_controls(words, _MARKERS):
        yield Spot(*found.span(), f"{found[0]} is no control", f"Did you mean {meant}?")


def empty_message(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if not (message.text.strip() or message.role is Role.TOOL or message.is_call):
            yield Spot(*source.head_span(frame), "the message is empty")


def not_canonical(source: LintedText) -> Iterator[Spot]:
    if canonical_text(source) is not None:
        yield Spot(0, 0, "the transcript is not in canonical form", "`antiphon fmt` writes it so.")


INFO, WARNING = Severity.INFO, Severity.WARNING
OWN_RULES: tuple[tuple[TextRule, Check], ...] = (
    (TextRule("header-bare", "2.1", "", "The header stands between fences.", level=INFO), bare_header),
    (TextRule("header-version-bare", "2.3", "", "The version is quoted, so that YAML does not read 2.10 as 2.1.",
          level=WARNING), unquoted_version),
    (TextRule("header-yaml-1-1", "2.2", "", "A value without quotes is the same for readers of YAML 1.1 and 1.2.",
          level=WARNING), otherwise_read),
    (TextRule("header-key", "2.7", "§2", "A key that is not known is not a known one misspelled.", level=WARNING),
     near_key),
    (HEAD_ORDER, disordered_head),
    (TextRule("legacy-reply", "7.5", "§4", "A tool's reply has the role tool.", mend=mends.respell, level=INFO),
     legacy_reply),
    (TextRule("intent-misplaced", "5.8", "§5", "An intent is for an assistant's commentary.", level=WARNING),
     misplaced_intent),
    (TextRule("channel-of-others", "6.3", "§5", "analysis and commentary are for the assistant and for tools.",
          level=WARNING), foreign_channel),
    (TextRule("plan-hidden", "6.4", "§5", "Commentary to nobody says whether it is for the user.", level=INFO),
     hidden_plan),
    (TextRule("call-unconstrained", "11.2", "HIP-1.4", "A function's JSON arguments are marked with <|constrain|>json.",
          mend=mends.mark_json, level=WARNING), unconstrained_call),
    (TextRule("call-unanswered", "7.8", "§8", "A call is answered before the user speaks again.", level=INFO),
     unanswered_call),
    (TextRule("json-calls", "7.10", "§6", "Calls are frames, not JSON in a text.", level=WARNING), json_calls),
    (TextRule("control-misspelled", "3.1", "§3", "A word in <| |> is no control misspelled.",
              level=WARNING), near_control),
    (TextRule("message-empty", "6.1", "", "A message says something.", level=INFO), empty_message),
    (TextRule("not-canonical", "5.3", "", "The transcript is in canonical form.", level=Severity.OFF), not_canonical),
)  # fmt: skip
"""Rules of the linter alone, each with its check."""


# -- findings and mends ----------------------------------------------------------------------------------------------

RULES = {**READING_RULES, **{rule.name: rule for rule, _ in OWN_RULES}}
"""Every rule by its name: those of readers, and our own."""
MOST_READINGS = 200
"""How often a text is read to mend it: twice a round, and to find a mend among others that may not be applied."""


def is_mended(rule: TextRule) -> bool:
    """Whether what breaks the rule can be mended."""
    return rule.mend is not None or rule.name in EDITS


def findings(
    text: str | LintedText, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False,
    harmony: bool = False,
) -> list[Diagnostic]:  # fmt: skip
    """Finds what the rules report of a transcript, in its order.

    ``levels``: the levels of some rules by name, in place of those of the table. ``fragment``: a transcript
    without a header is accepted. ``harmony``: the rules of HIP-1 whatever the header says; a text that was read has
    both already. Never raises on what it reads.
    """
    source = LintedText(text, fragment=fragment, harmony=harmony) if isinstance(text, str) else text
    return _found(source, levels or {})


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
    """The edits of a round in their order, none inside another: of the mends of one frame the first.

    A frame with an error may be misread, so what is doubtful in it waits.
    """
    errors = {(one.rule, one.position.offset) for one in source.findings if not one.warning}
    broken = {id(source.frame_at(offset or 0)) for _, offset in errors}
    edits: dict[object, Edit] = {}
    for diagnostic in found:
        if (edit := diagnostic.fix) is None or edit.reveals:
            continue
        frame = id(source.frame_at(edit.start))
        if diagnostic.rule in EDITS:
            edits[edit] = edit
        elif frame not in broken or (diagnostic.rule, diagnostic.start.offset) in errors:
            edits.setdefault(frame, edit)
    end = 0
    for edit in sorted(edits.values(), key=lambda edit: (edit.start, edit.end)):
        if edit.start >= end:
            yield edit
            end = edit.end


def mended(
    text: str, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False, harmony: bool = False
) -> str:
    """The transcript with every finding mended that has a fix; those that then have one too.

    A frame gets one mend a round. A fix that would add an error, or show what was hidden, is not applied; beside many
    of them, some of the others may not be either.
    """

    left = MOST_READINGS

    def read(changed: str) -> _Reading:
        nonlocal left
        left -= 1
        return _reading(LintedText(changed, fragment=fragment, harmony=harmony), levels or {})

    def apply(before: _Reading, edits: Sequence[Edit]) -> _Reading:
        """The reading with those edits that it allows; where not all are, each half by itself, the later one first."""
        after = read(edited(before.text, edits)) if left > 0 else before
        if before.allows(after):
            return after
        if len(edits) == 1:
            return before
        half = len(edits) // 2
        return apply(apply(before, edits[half:]), edits[:half])

    reading = read(text)
    while (changed := apply(reading, reading.edits)).text != reading.text:
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
