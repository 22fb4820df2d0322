"""The rules of the specification: the reader names them where it finds one broken (`Finding.rule`)."""

from __future__ import annotations

from antiphon.conversation import Channel, Role
from antiphon.formats.openchatml.head import ATTRIBUTES, INTENTS

from .fixes import (
    add_call_id,
    add_channel,
    add_header,
    add_name,
    add_version,
    escape_control,
    remove_repetition,
    replace_footer,
    replace_word,
    rewrite_head,
)
from .rule import CALL, FINAL, USER, LintRule, Severity

HEADER_RULES = (
    LintRule(
        "other-form",
        "The text is a transcript of version 2, not a conversation of another form.",
        '{"messages": [{"role": "user", "content": "Hi"}]}',
        USER,
    ),
    LintRule("header-missing", "A transcript begins with a YAML header.", f"!{USER}", USER, add_header),
    LintRule(
        "header-endless", "A header has at most 65,536 characters.", '---\nversion: "2.2"\n' + "# …\n" * 22_000, USER
    ),
    LintRule(
        "header-version-missing",
        "The header names the version.",
        f"---\nmodel: m\n---\n{USER}",
        f'---\nversion: "2.2"\nmodel: m\n---\n{USER}',
        add_version,
    ),
    LintRule(
        "header-version", "The version is major.minor, of version 1 or 2.", f"---\nversion: 3.0\n---\n{USER}", USER
    ),
    LintRule(
        "header-form",
        "The header is a mapping of plain data: no anchors, tags or repeated keys, at most 16 levels.",
        f'---\nversion: "2.2"\nmodel: a\nmodel: b\n---\n{USER}',
        f'---\nversion: "2.2"\nmodel: a\n---\n{USER}',
    ),
    LintRule(
        "header-yaml",
        "The header is YAML.",
        f'---\nversion: "2.2"\nmodel: [a, b\n---\n{USER}',
        f'---\nversion: "2.2"\nmodel: [a, b]\n---\n{USER}',
    ),
)
FRAME_RULES = (
    LintRule(
        "text-outside",
        "All text is in frames.",
        "<|start|>user<|message|>How does <|end|> work?<|end|>",
        "<|start|>user<|message|>How does <<|end|> work?<|end|>",
    ),
    LintRule("head-endless", "A head has at most 4,096 characters.", "<|start|>" + "user " * 1000, USER),
    LintRule("control-in-head", "No frame begins or ends inside a head.", "<|start|>user<|end|>", USER),
    LintRule(
        "control-in-body",
        "A control that is text is escaped; frames do not nest.",
        "<|start|>user<|message|>What is <|channel|>?<|end|>",
        "<|start|>user<|message|>What is <<|channel|>?<|end|>",
        escape_control,
    ),
    LintRule(
        "body-not-utf8",
        "Bytes that are not UTF-8 are in literal blocks.",
        "<|start|>user<|message|>\udcff<|end|>",
        "<|start|>user<|message|><|literal|>\udcff<|endliteral|><|end|>",
    ),
    LintRule("truncated", "The last frame ends.", "<|start|>user<|message|>Hi", USER),
    LintRule(
        "turn-unfinished",
        "An assistant's turn ends with an answer or a call.",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>\n<|start|>assistant<|channel|>final<|message|>4<|return|>",
        level=Severity.WARNING,
    ),
)
HEAD_RULES = (
    LintRule(
        "role-missing", "A role follows <|start|> at once.", "<|start|> user<|message|>Hi<|end|>", USER, rewrite_head
    ),
    LintRule(
        "role-form",
        "Nothing but blanks and tabs follows a role.",
        "<|start|>user\n<|message|>Hi<|end|>",
        USER,
        rewrite_head,
    ),
    LintRule(
        "role-unknown",
        "The role is system, developer, user, assistant, tool, or a tool's name.",
        "<|start|>asistant<|message|>Hi<|end|>",
        "<|start|>assistant<|message|>Hi<|end|>",
        replace_word(tuple(Role)),
    ),
    LintRule(
        "channel-unknown",
        "The channel is analysis, commentary or final.",
        "<|start|>assistant<|channel|>finl<|message|>4<|return|>",
        FINAL,
        replace_word(tuple(Channel)),
    ),
    LintRule(
        "channel-form",
        "The channel follows its control at once, and precedes <|constrain|>.",
        "<|start|>assistant<|channel|> final<|message|>4<|return|>",
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
        rewrite_head,
    ),
    LintRule(
        "section-twice",
        "A head has one channel and one type.",
        "<|start|>assistant<|channel|>final<|channel|>final<|message|>4<|return|>",
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
    ),
    LintRule(
        "section-empty",
        "<|channel|> and <|constrain|> are followed by a word.",
        "<|start|>assistant<|channel|><|message|>4<|return|>",
        "<|start|>assistant<|message|>4<|return|>",
    ),
    LintRule(
        "recipient-unknown",
        "to= names the assistant or a tool, with its namespace.",
        "<|start|>assistant to=search call_id=c1<|channel|>commentary<|message|>{}<|call|>",
        "<|start|>assistant to=browser.search call_id=c1<|channel|>commentary<|message|>{}<|call|>",
    ),
    LintRule(
        "intent-unknown",
        "The intent is preamble, status or debug.",
        "<|start|>assistant intent=preambel<|channel|>commentary<|message|>First …<|end|>\n"
        "<|start|>assistant<|message|>4<|return|>",
        "<|start|>assistant intent=preamble<|channel|>commentary<|message|>First …<|end|>\n"
        "<|start|>assistant<|message|>4<|return|>",
        replace_word(INTENTS, "intent="),
    ),
    LintRule(
        "attribute-unknown",
        "Attributes are to, call_id, name, intent and content_type.",
        "<|start|>user nam=bob<|message|>Hi<|end|>",
        "<|start|>user name=bob<|message|>Hi<|end|>",
        replace_word(ATTRIBUTES),
    ),
    LintRule(
        "attribute-place",
        "An attribute is where the grammar has it.",
        "<|start|>assistant<|channel|>final name=a<|message|>4<|return|>",
        "<|start|>assistant name=a<|channel|>final<|message|>4<|return|>",
        rewrite_head,
    ),
    LintRule(
        "attribute-twice",
        "An attribute is there once.",
        "<|start|>user name=a name=a<|message|>Hi<|end|>",
        "<|start|>user name=a<|message|>Hi<|end|>",
        remove_repetition,
    ),
    LintRule(
        "attribute-conflict",
        "What a head says twice it says alike.",
        "<|start|>user content_type=text<|constrain|>json<|message|>1<|end|>",
        "<|start|>user<|constrain|>json<|message|>1<|end|>",
    ),
    LintRule(
        "attribute-value",
        "A value is visible ASCII without controls; other characters are percent-encoded.",
        "<|start|>user name=<|message|>Hi<|end|>",
        USER,
        rewrite_head,
    ),
)
CALL_RULES = (
    LintRule(
        "call-id-missing",
        "A call has a call_id.",
        "<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
        CALL,
        add_call_id,
    ),
    LintRule("call-id-twice", "A call_id is unique in the transcript.", CALL + CALL, CALL + CALL.replace("c1", "c2")),
    LintRule(
        "call-channel",
        "Functions are called on commentary, built-in tools on analysis too.",
        CALL.replace("<|channel|>commentary", ""),
        CALL,
        add_channel,
    ),
    LintRule(
        "call-footer",
        "<|call|> ends calls, and nothing else does.",
        CALL.replace("<|call|>", "<|end|>"),
        CALL,
        replace_footer,
    ),
    LintRule("call-arguments", "A call's arguments are an object that fits its tool.", CALL.replace("{}", "[]"), CALL),
    LintRule(
        "reply-name-missing",
        "A tool's reply names its tool.",
        CALL + "<|start|>tool call_id=c1<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        add_name,
    ),
    LintRule(
        "reply-id-missing",
        "A tool's reply has the call_id of its call.",
        CALL + "<|start|>tool name=functions.f<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        add_call_id,
    ),
    LintRule(
        "reply-to-nothing",
        "A tool's reply answers a call before it.",
        "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
    ),
    LintRule(
        "reply-twice",
        "A call has one reply.",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>\n" * 2,
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        level=Severity.WARNING,
    ),
    LintRule(
        "reply-of-another",
        "A reply comes from the tool that was called.",
        CALL + "<|start|>tool call_id=c1 name=functions.g<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        level=Severity.WARNING,
    ),
)
PROMISE_RULES = (
    LintRule(
        "body-type",
        "A body is of the type behind <|constrain|>: json, yaml, toml or xml.",
        "<|start|>assistant<|constrain|>json<|message|>{a: 1}<|return|>",
        '<|start|>assistant<|constrain|>json<|message|>{"a": 1}<|return|>',
    ),
    LintRule(
        "return-footer",
        "<|return|> ends final answers.",
        "<|start|>user<|message|>Hi<|return|>",
        USER,
        replace_footer,
        level=Severity.WARNING,
    ),
    LintRule(
        "channel-missing",
        "Where the profile of Harmony holds, messages have channels.",
        "<|start|>assistant<|message|>4<|return|>",
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
        add_channel,
        flags=("harmony",),
    ),
    LintRule(
        "capability",
        "What the header's capabilities leave out is not used.",
        f'---\nversion: "2.2"\ncapabilities:\n  roles: [assistant]\n---\n{USER}',
        f'---\nversion: "2.2"\ncapabilities:\n  roles: [assistant, user]\n---\n{USER}',
    ),
    LintRule(
        "version-1",
        "A transcript of version 1 uses nothing of version 2.",
        '---\nversion: "1.0"\n---\n<|start|>assistant<|message|>4<|return|>',
        '---\nversion: "1.0"\n---\n<|start|>assistant<|message|>4<|end|>',
    ),
)
OTHER = LintRule("other", "The transcript is valid in whatever no other rule names.", "", "")
"""The rule of a finding that names no other."""
READING_RULES = (*HEADER_RULES, *FRAME_RULES, *HEAD_RULES, *CALL_RULES, *PROMISE_RULES, OTHER)
