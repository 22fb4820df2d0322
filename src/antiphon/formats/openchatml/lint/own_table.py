"""The table of our own rules, with an example for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .examples import CALL, FINAL, USER
from .fixes import constrain, rewrite_head, rewrite_header
from .linted_text import LintedText
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
from .rule import Fix, LintRule, Severity, Spot

REPLY = "<|start|>tool call_id=c1 name=functions.f<|message|>"


def _rule(
    name: str,
    level: Severity,
    what: str,
    check: Callable[[LintedText], Iterator[Spot]],
    bad: str,
    good: str,
    fix: Fix | None = None,
) -> LintRule:
    return LintRule(name, level, what, bad, good, None, check, fix)


OWN_RULES = (
    _rule(
        "header-bare",
        Severity.INFO,
        "The header stands between fences.",
        bare_header,
        f'version: "2.2"\n{USER}',
        f'---\nversion: "2.2"\n---\n{USER}',
        rewrite_header,
    ),
    _rule(
        "header-version-bare",
        Severity.WARNING,
        "The version is quoted, so that YAML does not read 2.10 as 2.1.",
        unquoted_version,
        f"---\nversion: 2.2\n---\n{USER}",
        f'---\nversion: "2.2"\n---\n{USER}',
        rewrite_header,
    ),
    _rule(
        "header-key",
        Severity.WARNING,
        "A key that is not known is not a known one misspelled.",
        near_key,
        f'---\nversion: "2.2"\ngeneration_setting: {{seed: 1}}\n---\n{USER}',
        f'---\nversion: "2.2"\ngeneration_settings: {{seed: 1}}\n---\n{USER}',
    ),
    _rule(
        "head-order",
        Severity.INFO,
        "Attributes are in the grammar's order, in the start section.",
        disordered_head,
        "<|start|>assistant<|channel|>final content_type=text<|message|>4<|return|>",
        "<|start|>assistant content_type=text<|channel|>final<|message|>4<|return|>",
        rewrite_head,
    ),
    _rule(
        "legacy-reply",
        Severity.INFO,
        "A tool's reply has the role tool.",
        legacy_reply,
        CALL + "<|start|>functions.f call_id=c1<|message|>1<|end|>",
        CALL + REPLY + "1<|end|>",
        rewrite_head,
    ),
    _rule(
        "intent-misplaced",
        Severity.WARNING,
        "An intent is for an assistant's commentary.",
        misplaced_intent,
        "<|start|>assistant intent=debug<|channel|>final<|message|>4<|return|>",
        FINAL,
    ),
    _rule(
        "channel-of-others",
        Severity.WARNING,
        "analysis and commentary are for the assistant and for tools.",
        foreign_channel,
        "<|start|>user<|channel|>analysis<|message|>Hi<|end|>",
        USER,
    ),
    _rule(
        "plan-hidden",
        Severity.INFO,
        "Commentary to nobody says whether it is for the user.",
        hidden_plan,
        f"<|start|>assistant<|channel|>commentary<|message|>First …<|end|>\n{FINAL}",
        f"<|start|>assistant intent=preamble<|channel|>commentary<|message|>First …<|end|>\n{FINAL}",
    ),
    _rule(
        "call-unconstrained",
        Severity.WARNING,
        "A function's JSON arguments are marked with <|constrain|>json.",
        unconstrained_call,
        CALL.replace("<|constrain|>json", ""),
        CALL,
        constrain,
    ),
    _rule(
        "call-unanswered",
        Severity.INFO,
        "A call is answered before the user speaks again.",
        unanswered_call,
        CALL + USER,
        CALL + REPLY + "1<|end|>\n" + USER,
    ),
    _rule(
        "call-deadline",
        Severity.WARNING,
        "deadline_ms is a positive whole number.",
        odd_deadline,
        CALL.replace("{}", '{"deadline_ms": -1}'),
        CALL.replace("{}", '{"deadline_ms": 500}'),
    ),
    _rule(
        "reply-envelope",
        Severity.WARNING,
        "A reply's envelope says ok, or what went wrong.",
        odd_envelope,
        CALL + REPLY + '{"ok": false}<|end|>',
        CALL + REPLY + '{"ok": false, "error": "no network"}<|end|>',
    ),
    _rule(
        "json-calls",
        Severity.WARNING,
        "Calls are frames, not JSON in a text.",
        json_calls,
        '<|start|>assistant<|message|>{"tool_calls": []}<|return|>',
        FINAL,
    ),
    _rule(
        "reflection-outside",
        Severity.WARNING,
        "The markers of reflection are in analysis alone.",
        shown_reflection,
        "<|start|>assistant<|message|><|start_reflect|>4?<|return|>",
        FINAL,
    ),
    _rule(
        "control-misspelled",
        Severity.WARNING,
        "A word in <| |> is no control misspelled.",
        near_control,
        "<|start|>user<|message|>Hi<|retrun|><|end|>",
        USER,
    ),
    _rule(
        "message-empty",
        Severity.INFO,
        "A message says something.",
        empty_message,
        "<|start|>user<|message|> <|end|>",
        USER,
    ),
    _rule(
        "not-canonical",
        Severity.OFF,
        "The transcript is in canonical form.",
        not_canonical,
        f"{USER}\n\n{USER}",
        f"{USER}{USER}",
        canonical_text,
    ),
)
