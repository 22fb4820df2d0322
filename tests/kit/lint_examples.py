"""An example that breaks each rule of the linter, and one that keeps it."""

from __future__ import annotations

HEADER = '---\nversion: "2.2"\n---\n'


def whole(example: str) -> str:
    """An example with a header, unless it begins with one of its own, with JSON, or says by ``!`` that it lacks one."""
    if example.startswith("!"):
        return example[1:]
    return example if example.startswith(("---", "version", "{")) else HEADER + example


FINAL = "<|start|>assistant<|channel|>final<|message|>4<|return|>"
CALL = "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
REPLY = "<|start|>tool call_id=c1 name=functions.f<|message|>"
USER = "<|start|>user<|message|>Hi<|end|>\n"

EXAMPLES: dict[str, tuple[str, str]] = {
    "other-form": ('{"messages": [{"role": "user", "content": "Hi"}]}', USER),
    "header-missing": ("!" + USER, USER),
    "header-endless": ('---\nversion: "2.2"\n' + "# …\n" * 22_000, USER),
    "header-version-missing": ("---\nmodel: m\n---\n" + USER, '---\nversion: "2.2"\nmodel: m\n---\n' + USER),
    "header-version": ("---\nversion: 3.0\n---\n" + USER, USER),
    "header-form": (
        '---\nversion: "2.2"\nmodel: a\nmodel: b\n---\n' + USER,
        '---\nversion: "2.2"\nmodel: a\n---\n' + USER,
    ),
    "header-yaml": (
        '---\nversion: "2.2"\nmodel: [a, b\n---\n' + USER,
        '---\nversion: "2.2"\nmodel: [a, b]\n---\n' + USER,
    ),
    "text-outside": (
        "<|start|>user<|message|>How does <|end|> work?<|end|>",
        "<|start|>user<|message|>How does <<|end|> work?<|end|>",
    ),
    "head-endless": ("<|start|>" + "user " * 1000, USER),
    "control-in-head": ("<|start|>user<|end|>", USER),
    "control-in-body": (
        "<|start|>user<|message|>What is <|channel|>?<|end|>",
        "<|start|>user<|message|>What is <<|channel|>?<|end|>",
    ),
    "body-not-utf8": (
        "<|start|>user<|message|>\udcff<|end|>",
        "<|start|>user<|message|><|literal|>\udcff<|endliteral|><|end|>",
    ),
    "truncated": ("<|start|>user<|message|>Hi", USER),
    "turn-unfinished": (
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>\n" + FINAL,
    ),
    "role-missing": ("<|start|> user<|message|>Hi<|end|>", USER),
    "role-form": ("<|start|>user\n<|message|>Hi<|end|>", USER),
    "role-unknown": (
        "<|start|>sytem<|message|>Be brief.<|end|>\n" + USER,
        "<|start|>system<|message|>Be brief.<|end|>\n" + USER,
    ),
    "channel-unknown": (
        "<|start|>assistant<|channel|>anlysis<|message|>2 + 2<|end|>\n" + FINAL,
        "<|start|>assistant<|channel|>analysis<|message|>2 + 2<|end|>\n" + FINAL,
    ),
    "channel-form": ("<|start|>assistant<|channel|> final<|message|>4<|return|>", FINAL),
    "section-twice": ("<|start|>assistant<|channel|>final<|channel|>final<|message|>4<|return|>", FINAL),
    "section-empty": (
        "<|start|>assistant<|channel|><|message|>4<|return|>",
        "<|start|>assistant<|message|>4<|return|>",
    ),
    "recipient-unknown": (
        "<|start|>assistant to=search call_id=c1<|channel|>commentary<|message|>{}<|call|>",
        "<|start|>assistant to=browser.search call_id=c1<|channel|>commentary<|message|>{}<|call|>",
    ),
    "intent-unknown": (
        "<|start|>assistant intent=staus<|channel|>commentary<|message|>3 of 4<|end|>\n" + FINAL,
        "<|start|>assistant intent=status<|channel|>commentary<|message|>3 of 4<|end|>\n" + FINAL,
    ),
    "attribute-unknown": ("<|start|>user nam=bob<|message|>Hi<|end|>", "<|start|>user name=bob<|message|>Hi<|end|>"),
    "attribute-place": (
        "<|start|>assistant<|channel|>final name=a<|message|>4<|return|>",
        "<|start|>assistant name=a<|channel|>final<|message|>4<|return|>",
    ),
    "attribute-twice": ("<|start|>user name=a name=a<|message|>Hi<|end|>", "<|start|>user name=a<|message|>Hi<|end|>"),
    "attribute-conflict": (
        "<|start|>user content_type=text<|constrain|>json<|message|>1<|end|>",
        "<|start|>user<|constrain|>json<|message|>1<|end|>",
    ),
    "attribute-value": ("<|start|>user name=<|message|>Hi<|end|>", USER),
    "call-id-missing": (
        "<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
        CALL,
    ),
    "call-id-twice": (
        CALL + CALL,
        CALL
        + "<|start|>assistant to=functions.f call_id=c2<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n",
    ),
    "call-channel": ("<|start|>assistant to=functions.f call_id=c1<|constrain|>json<|message|>{}<|call|>\n", CALL),
    "call-footer": (
        "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|end|>\n",
        CALL,
    ),
    "call-arguments": (
        "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>[]<|call|>\n",
        CALL,
    ),
    "reply-name-missing": (CALL + "<|start|>tool call_id=c1<|message|>1<|end|>", CALL + REPLY + "1<|end|>"),
    "reply-id-missing": (CALL + "<|start|>tool name=functions.f<|message|>1<|end|>", CALL + REPLY + "1<|end|>"),
    "reply-to-nothing": (REPLY + "1<|end|>", CALL + REPLY + "1<|end|>"),
    "reply-twice": (CALL + REPLY + "1<|end|>\n" + REPLY + "1<|end|>\n", CALL + REPLY + "1<|end|>"),
    "reply-of-another": (
        CALL + "<|start|>tool call_id=c1 name=functions.g<|message|>1<|end|>",
        CALL + REPLY + "1<|end|>",
    ),
    "body-type": (
        "<|start|>assistant<|constrain|>json<|message|>{a: 1}<|return|>",
        '<|start|>assistant<|constrain|>json<|message|>{"a": 1}<|return|>',
    ),
    "return-footer": ("<|start|>user<|message|>Hi<|return|>", USER),
    "channel-missing": ("<|start|>assistant<|message|>4<|return|>", FINAL),
    "capability": (
        '---\nversion: "2.2"\ncapabilities:\n  roles: [assistant]\n---\n' + USER,
        '---\nversion: "2.2"\ncapabilities:\n  roles: [assistant, user]\n---\n' + USER,
    ),
    "version-1": (
        '---\nversion: "1.0"\n---\n<|start|>assistant<|message|>4<|return|>',
        '---\nversion: "1.0"\n---\n<|start|>assistant<|message|>4<|end|>',
    ),
    "header-bare": ('version: "2.2"\n' + USER, '---\nversion: "2.2"\n---\n' + USER),
    "header-version-bare": ("---\nversion: 2.2\n---\n" + USER, '---\nversion: "2.2"\n---\n' + USER),
    "header-yaml-1-1": (
        '---\nversion: "2.2"\nmodel: no\n---\n' + USER,
        '---\nversion: "2.2"\nmodel: "no"\n---\n' + USER,
    ),
    "header-key": (
        '---\nversion: "2.2"\ngeneration_setting: {seed: 1}\n---\n' + USER,
        '---\nversion: "2.2"\ngeneration_settings: {seed: 1}\n---\n' + USER,
    ),
    "head-order": (
        "<|start|>assistant<|channel|>final content_type=text<|message|>4<|return|>",
        "<|start|>assistant content_type=text<|channel|>final<|message|>4<|return|>",
    ),
    "legacy-reply": (CALL + "<|start|>functions.f call_id=c1<|message|>1<|end|>", CALL + REPLY + "1<|end|>"),
    "intent-misplaced": ("<|start|>assistant intent=debug<|channel|>final<|message|>4<|return|>", FINAL),
    "channel-of-others": ("<|start|>user<|channel|>analysis<|message|>Hi<|end|>", USER),
    "plan-hidden": (
        "<|start|>assistant<|channel|>commentary<|message|>First …<|end|>\n" + FINAL,
        "<|start|>assistant intent=preamble<|channel|>commentary<|message|>First …<|end|>\n" + FINAL,
    ),
    "call-unconstrained": (
        "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|message|>{}<|call|>\n",
        CALL,
    ),
    "call-unanswered": (CALL + USER, CALL + REPLY + "1<|end|>\n" + USER),
    "call-deadline": (
        "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json"
        '<|message|>{"deadline_ms": -1}<|call|>\n',
        "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json"
        '<|message|>{"deadline_ms": 500}<|call|>\n',
    ),
    "reply-envelope": (
        CALL + REPLY + '{"ok": false}<|end|>',
        CALL + REPLY + '{"ok": false, "error": "no network"}<|end|>',
    ),
    "json-calls": ('<|start|>assistant<|message|>{"tool_calls": []}<|return|>', FINAL),
    "reflection-outside": ("<|start|>assistant<|message|><|start_reflect|>4?<|return|>", FINAL),
    "control-misspelled": ("<|start|>user<|message|>Hi<|retrun|><|end|>", USER),
    "message-empty": ("<|start|>user<|message|> <|end|>", USER),
    "not-canonical": (USER + "\n\n" + USER, USER + USER),
    "call-unmarked": ("<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|message|>{}<|call|>\n", CALL),
    "plan-unmarked": (
        "<|start|>assistant<|channel|>commentary<|message|>First …<|end|>\n" + FINAL,
        "<|start|>assistant intent=preamble<|channel|>commentary<|message|>First …<|end|>\n" + FINAL,
    ),
    "tool-undeclared": (
        "<|start|>developer<|message|># Tools\n## functions\nnamespace functions {\ntype g = () => any;\n}<|end|>\n"
        + CALL,
        "<|start|>developer<|message|># Tools\n## functions\nnamespace functions {\ntype f = () => any;\n}<|end|>\n"
        + CALL,
    ),
    "declaration-unread": (
        "<|start|>developer<|message|># Tools\n## functions\nnamespace functions {\n"
        "type f = (_: Map<>) => any;\n}<|end|>\n" + USER,
        "<|start|>developer<|message|># Tools\n## functions\nnamespace functions {\n"
        "type f = (_: {}) => any;\n}<|end|>\n" + USER,
    ),
    "calls-mixed": (
        CALL + REPLY + '1<|end|>\n<|start|>assistant<|message|>{"tool_calls": []}<|return|>',
        CALL + REPLY + "1<|end|>\n" + FINAL,
    ),
}
"""By the rule's name: what breaks it, what keeps it."""
HARMONY = ("channel-missing", "call-unmarked", "plan-unmarked")
"""Rules whose examples need the profile of Harmony."""
