"""Finds faults and doubts in a transcript by named rules, and mends those that can be mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .fixes import constrain, rewrite_head, rewrite_header
from .own_rules import (
    bare_header,
    canonical_text,
    disordered_head,
    empty_message,
    foreign_channel,
    hidden_plan,
    json_calls,
    legacy_reply,
    misplaced_intent,
    near_control,
    near_key,
    not_canonical,
    odd_deadline,
    odd_envelope,
    shown_reflection,
    unanswered_call,
    unconstrained_call,
    unquoted_version,
)
from .reading_rules import READING_RULES
from .rule import CALL, FINAL, USER, Diagnostic, Edit, LintedText, LintRule, Severity

# The table of our own rules, with an example for each.

REPLY = "<|start|>tool call_id=c1 name=functions.f<|message|>"

OWN_RULES = (
    LintRule(
        "header-bare",
        "The header stands between fences.",
        f'version: "2.2"\n{USER}',
        f'---\nversion: "2.2"\n---\n{USER}',
        rewrite_header,
        level=Severity.INFO,
        check=bare_header,
    ),
    LintRule(
        "header-version-bare",
        "The version is quoted, so that YAML does not read 2.10 as 2.1.",
        f"---\nversion: 2.2\n---\n{USER}",
        f'---\nversion: "2.2"\n---\n{USER}',
        rewrite_header,
        level=Severity.WARNING,
        check=unquoted_version,
    ),
    LintRule(
        "header-key",
        "A key that is not known is not a known one misspelled.",
        f'---\nversion: "2.2"\ngeneration_setting: {{seed: 1}}\n---\n{USER}',
        f'---\nversion: "2.2"\ngeneration_settings: {{seed: 1}}\n---\n{USER}',
        level=Severity.WARNING,
        check=near_key,
    ),
    LintRule(
        "head-order",
        "Attributes are in the grammar's order, in the start section.",
        "<|start|>assistant<|channel|>final content_type=text<|message|>4<|return|>",
        "<|start|>assistant content_type=text<|channel|>final<|message|>4<|return|>",
        rewrite_head,
        level=Severity.INFO,
        check=disordered_head,
    ),
    LintRule(
        "legacy-reply",
        "A tool's reply has the role tool.",
        CALL + "<|start|>functions.f call_id=c1<|message|>1<|end|>",
        CALL + REPLY + "1<|end|>",
        rewrite_head,
        level=Severity.INFO,
        check=legacy_reply,
    ),
    LintRule(
        "intent-misplaced",
        "An intent is for an assistant's commentary.",
        "<|start|>assistant intent=debug<|channel|>final<|message|>4<|return|>",
        FINAL,
        level=Severity.WARNING,
        check=misplaced_intent,
    ),
    LintRule(
        "channel-of-others",
        "analysis and commentary are for the assistant and for tools.",
        "<|start|>user<|channel|>analysis<|message|>Hi<|end|>",
        USER,
        level=Severity.WARNING,
        check=foreign_channel,
    ),
    LintRule(
        "plan-hidden",
        "Commentary to nobody says whether it is for the user.",
        f"<|start|>assistant<|channel|>commentary<|message|>First …<|end|>\n{FINAL}",
        f"<|start|>assistant intent=preamble<|channel|>commentary<|message|>First …<|end|>\n{FINAL}",
        level=Severity.INFO,
        check=hidden_plan,
    ),
    LintRule(
        "call-unconstrained",
        "A function's JSON arguments are marked with <|constrain|>json.",
        CALL.replace("<|constrain|>json", ""),
        CALL,
        constrain,
        level=Severity.WARNING,
        check=unconstrained_call,
    ),
    LintRule(
        "call-unanswered",
        "A call is answered before the user speaks again.",
        CALL + USER,
        CALL + REPLY + "1<|end|>\n" + USER,
        level=Severity.INFO,
        check=unanswered_call,
    ),
    LintRule(
        "call-deadline",
        "deadline_ms is a positive whole number.",
        CALL.replace("{}", '{"deadline_ms": -1}'),
        CALL.replace("{}", '{"deadline_ms": 500}'),
        level=Severity.WARNING,
        check=odd_deadline,
    ),
    LintRule(
        "reply-envelope",
        "A reply's envelope says ok, or what went wrong.",
        CALL + REPLY + '{"ok": false}<|end|>',
        CALL + REPLY + '{"ok": false, "error": "no network"}<|end|>',
        level=Severity.WARNING,
        check=odd_envelope,
    ),
    LintRule(
        "json-calls",
        "Calls are frames, not JSON in a text.",
        '<|start|>assistant<|message|>{"tool_calls": []}<|return|>',
        FINAL,
        level=Severity.WARNING,
        check=json_calls,
    ),
    LintRule(
        "reflection-outside",
        "The markers of reflection are in analysis alone.",
        "<|start|>assistant<|message|><|start_reflect|>4?<|return|>",
        FINAL,
        level=Severity.WARNING,
        check=shown_reflection,
    ),
    LintRule(
        "control-misspelled",
        "A word in <| |> is no control misspelled.",
        "<|start|>user<|message|>Hi<|retrun|><|end|>",
        USER,
        level=Severity.WARNING,
        check=near_control,
    ),
    LintRule(
        "message-empty",
        "A message says something.",
        "<|start|>user<|message|> <|end|>",
        USER,
        level=Severity.INFO,
        check=empty_message,
    ),
    LintRule(
        "not-canonical",
        "The transcript is in canonical form.",
        f"{USER}\n\n{USER}",
        f"{USER}{USER}",
        canonical_text,
        level=Severity.OFF,
        check=not_canonical,
    ),
)


RULES = {rule.name: rule for rule in (*READING_RULES, *OWN_RULES)}
"""Every rule by its name, in the order of a transcript."""
MAX_ROUNDS = 1000
"""Rounds of mending; each mends at least one finding of every frame that has one."""


def findings(
    text: str | LintedText, *, levels: Mapping[str, Severity] | None = None, fragment: bool = False,
    harmony: bool = False,
) -> list[Diagnostic]:  # fmt: skip
    """Finds what the rules report of a transcript, in its order.

    ``levels``: the levels of some rules by name, in place of those of the table. ``fragment``: a transcript
    without a header is accepted. ``harmony``: the rules of HIP-1 whatever the header says. Never raises on what it
    reads.
    """
    chosen = levels or {}
    source = LintedText(text) if isinstance(text, str) else text
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
    for finding in source.findings(fragment=fragment, harmony=harmony):
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
