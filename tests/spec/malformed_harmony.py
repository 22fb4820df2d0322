"""Replies that the reference refuses or says nothing about: what we read of them, and what nobody may lose."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def said(text: str, channel: str | None = "final", **more: str) -> Json:
    fields = {"role": "assistant", "content": text, **more}
    return {**fields, **({"channel": channel} if channel else {})}


def call(to: str, text: str, channel: str = "commentary", **more: str) -> Json:
    return said(text, channel, recipient=to, **more)


JSON = {"content_type": "<|constrain|>json"}
TOLERATED: list[tuple[str, str, list[Json], list[str], list[str]]] = [
    (
        "No blank before the mark of a type",
        "<|channel|>commentary to=functions.lookup<|constrain|>json<|message|>{}<|call|>",
        [call("functions.lookup", "{}", **JSON)],
        ["HAR-85"],
        ["A-H05"],
    ),
    (
        "A blank behind the mark of a type",
        "<|channel|>commentary to=functions.lookup<|constrain|> json<|message|>{}<|call|>",
        [call("functions.lookup", "{}", **JSON)],
        ["HAR-85"],
        ["A-H05"],
    ),
    (
        "A line break between two messages",
        "<|channel|>analysis<|message|>hm<|end|>\n<|start|>assistant<|channel|>final<|message|>yes<|return|>",
        [said("hm", "analysis"), said("yes")],
        ["HAR-81"],
        ["X-49"],
    ),
]
"""(title, reply, messages, clauses, decisions)"""

YES = {"messages": [said("yes")]}
MALFORMED: list[tuple[str, str, tuple[str, ...], Json]] = [
    (
        "No start before the second message",
        "<|channel|>analysis<|message|>hm<|end|>assistant<|channel|>final<|message|>yes<|return|>",
        ("hm", "yes"),
        {},
    ),
    ("A channel in place of the role", "<|start|>analysis<|channel|>final<|message|>yes<|return|>", ("yes",), {}),
    ("Text before the channel", "final<|channel|>analysis<|message|>hm<|end|>", ("hm",), {}),
    ("Two channels run together", "<|channel|>finalanalysis<|message|>yes<|end|>", ("yes",), {}),
    ("No message token", "<|channel|>finalsorry, no<|return|>", ("sorry, no",), {"messages": [said("sorry, no")]}),
    ("A channel with a letter too many", "<|channel|>finals<|message|>yes<|return|>", ("yes",), YES),
    ("A channel that is cut short", "<|channel|>fin<|message|>yes<|return|>", ("yes",), YES),
    (
        "A sentence in place of a type",
        "<|channel|>final<|constrain|>Sorry, no.<|return|>",
        ("Sorry, no.",),
        {"messages": [said("Sorry, no.")]},
    ),
    ("A role with a word too many", "<|start|>assistantresponse<|message|>yes<|return|>", ("yes",), {}),
    ("A start in place of a message token", "<|channel|>analysis<|start|>We think.<|end|>", ("We think.",), {}),
    ("Text directly behind the role", "<|start|>assistantWe think.<|end|>", ("We think.",), {}),
    (
        "JSON in place of a type",
        '<|channel|>commentary to=functions.lookup <|constrain|>{"a":1}<|call|>',
        ('{"a":1}',),
        {"messages": [{"recipient": "functions.lookup", "content": '{"a":1}'}]},
    ),
    ("No header at all", "The sky is blue.<|return|>", ("The sky is blue.",), {"messages": [said("The sky is blue.")]}),
    (
        "An answer that begins with a tool's name",
        "python is a snake<|return|>",
        ("python is a snake",),
        {"messages": [said("python is a snake")]},
    ),
    (
        "A bare name for a function",
        "<|channel|>commentary to=forecast<|message|>{}<|call|>",
        ("{}",),
        {"messages": [{"recipient": "functions.forecast"}]},
    ),
    (
        "A name without to=",
        "<|channel|>commentary forecast<|message|>{}<|call|>",
        ("{}",),
        {"messages": [{"recipient": "functions.forecast"}]},
    ),
    ("Text behind the end", "<|channel|>final<|message|>yes<|return|>and more", ("yes", "and more"), {}),
    ("Two ends", "<|channel|>final<|message|>yes<|end|><|return|>", ("yes",), YES),
    ("A header that is cut", "<|channel|>final<|message|>yes<|end|><|start|>assist", ("yes",), {}),
    (
        "A channel and nothing more",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>fin",
        ("hm",),
        {},
    ),
    ("A message token within a text", "<|channel|>final<|message|>yes <|message|>no<|return|>", ("yes", "no"), {}),
    ("A channel token within a text", "<|channel|>final<|message|>yes <|channel|>no<|return|>", ("yes", "no"), {}),
]
"""(title, reply, texts that may not be lost, further demands)"""

_ARGUMENTS = '{"city": "Bern"}'
_PLAIN: Json = {}
ADMITTED: list[tuple[str, list[str], Json, str, str, list[str]]] = [
    *(
        (
            title,
            ["tools"],
            {"tool_choice": "required"},
            f"{header}<|message|>{_ARGUMENTS}<|call|>",
            answer,
            ["HAR-84", "HAR-85"],
        )
        for title, header, answer in (
            (
                "The recipient behind the channel",
                "<|channel|>commentary to=functions.forecast <|constrain|>json",
                "yes",
            ),
            ("No blank before the mark", "<|channel|>commentary to=functions.forecast<|constrain|>json", "yes"),
            ("A blank behind the mark", "<|channel|>commentary to=functions.forecast <|constrain|> json", "yes"),
            ("A bare type", "<|channel|>commentary to=functions.forecast json", "yes"),
            ("No type", "<|channel|>commentary to=functions.forecast", "yes"),
            ("The recipient beside the role", " to=functions.forecast<|channel|>commentary json", "yes"),
            ("A call on analysis", "<|channel|>analysis to=functions.forecast code", "yes"),
            ("A call on final", "<|channel|>final to=functions.forecast json", "no"),
            ("A name without its namespace", "<|channel|>commentary to=forecast json", "no"),
            ("An unknown type", "<|channel|>commentary to=functions.forecast text", "no"),
        )
    ),
    (
        "Code for python",
        [],
        {"builtins": ["python"]},
        "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
        "yes",
        ["HAR-106", "HAR-107"],
    ),
    (
        "A query for browser",
        [],
        {"builtins": ["browser"]},
        '<|channel|>analysis to=browser.search code<|message|>{"query": "Bern"}<|call|>',
        "yes",
        ["HAR-103", "HAR-104"],
    ),
    (
        "A query without its query",
        [],
        {"builtins": ["browser"]},
        "<|channel|>analysis to=browser.search code<|message|>{}<|call|>",
        "no",
        ["HAR-102"],
    ),
    (
        "Python where it is not offered",
        ["tools"],
        _PLAIN,
        "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
        "no",
        ["HAR-99"],
    ),
    (
        "A preamble before a call",
        ["tools"],
        {"tool_choice": "required"},
        "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.locate json<|message|>{}<|call|>",
        "yes",
        ["HAR-92", "HAR-94"],
    ),
    (
        "Members in another order than declared",
        ["tools"],
        {"tool_choice": "required"},
        '<|channel|>commentary to=functions.forecast json<|message|>{"days": 1, "city": "Bern"}<|call|>',
        "no",
        ["HAR-98"],
    ),
    (
        "Text behind a call",
        ["tools"],
        _PLAIN,
        "<|channel|>commentary to=functions.locate<|message|>{}<|call|>And then?",
        "no",
        ["HAR-42"],
    ),
]
"""(title, shared parts, request, reply, answer, clauses)"""
