"""The rules of the specification: each has the words by which the reader reports that it is broken."""

from __future__ import annotations

from antiphon.conversation import Channel, Role
from antiphon.formats.openchatml.head import ATTRIBUTES, INTENTS

from .call_rules import CALL_RULES
from .examples import FINAL, USER
from .fixes import (
    add_channel,
    add_header,
    add_version,
    escape_control,
    remove_repetition,
    replace_footer,
    replace_word,
    rewrite_head,
)
from .rule import LintRule, Severity, reader_rule

HEADER_RULES = (
    reader_rule(
        "other-form",
        "this is (a|chat|JSON)",
        "The text is a transcript of version 2, not a conversation of another form.",
        '{"messages": [{"role": "user", "content": "Hi"}]}',
        USER,
    ),
    reader_rule(
        "header-missing",
        "the transcript has no header",
        "A transcript begins with a YAML header.",
        f"!{USER}",
        USER,
        add_header,
    ),
    reader_rule(
        "header-endless",
        "the header does not end",
        "A header has at most 65,536 characters.",
        '---\nversion: "2.2"\n' + "# …\n" * 22_000,
        USER,
    ),
    reader_rule(
        "header-version-missing",
        "the header has no version",
        "The header names the version.",
        f"---\nmodel: m\n---\n{USER}",
        f'---\nversion: "2.2"\nmodel: m\n---\n{USER}',
        add_version,
    ),
    reader_rule(
        "header-version",
        "the version |unsupported version",
        "The version is major.minor, of version 1 or 2.",
        f"---\nversion: 3.0\n---\n{USER}",
        USER,
    ),
    reader_rule(
        "header-form",
        ".* (has|have) no place in a header|the header is nested|the header is not a mapping"
        "|the key .* stands twice|a key is no word",
        "The header is a mapping of plain data: no anchors, tags or repeated keys, at most 16 levels.",
        f'---\nversion: "2.2"\nmodel: a\nmodel: b\n---\n{USER}',
        f'---\nversion: "2.2"\nmodel: a\n---\n{USER}',
    ),
)
HEADER_YAML = LintRule(
    "header-yaml",
    Severity.ERROR,
    "The header is YAML.",
    f'---\nversion: "2.2"\nmodel: [a, b\n---\n{USER}',
    f'---\nversion: "2.2"\nmodel: [a, b]\n---\n{USER}',
)
"""What is wrong inside the header, whatever the YAML library calls it."""
FRAME_RULES = (
    reader_rule(
        "text-outside",
        "text stands outside any frame",
        "All text is in frames.",
        "<|start|>user<|message|>How does <|end|> work?<|end|>",
        "<|start|>user<|message|>How does <<|end|> work?<|end|>",
    ),
    reader_rule(
        "head-endless",
        "no <\\|message\\|> within",
        "A head has at most 4,096 characters.",
        "<|start|>" + "user " * 1000,
        USER,
    ),
    reader_rule(
        "control-in-head",
        "\\S+ stands in a head",
        "No frame begins or ends inside a head.",
        "<|start|>user<|end|>",
        USER,
    ),
    reader_rule(
        "control-in-body",
        "\\S+ stands in a body",
        "A control that is text is escaped; frames do not nest.",
        "<|start|>user<|message|>What is <|channel|>?<|end|>",
        "<|start|>user<|message|>What is <<|channel|>?<|end|>",
        escape_control,
    ),
    reader_rule(
        "body-not-utf8",
        "the body is not UTF-8",
        "Bytes that are not UTF-8 are in literal blocks.",
        "<|start|>user<|message|>\udcff<|end|>",
        "<|start|>user<|message|><|literal|>\udcff<|endliteral|><|end|>",
    ),
    reader_rule("truncated", "the text ends inside", "The last frame ends.", "<|start|>user<|message|>Hi", USER),
    reader_rule(
        "turn-unfinished",
        "no <\\|return\\|> or <\\|call\\|> at the end",
        "An assistant's turn ends with an answer or a call.",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>\n<|start|>assistant<|channel|>final<|message|>4<|return|>",
        level=Severity.WARNING,
    ),
)
HEAD_RULES = (
    reader_rule(
        "role-missing",
        "the frame has no role",
        "A role follows <|start|> at once.",
        "<|start|> user<|message|>Hi<|end|>",
        USER,
        rewrite_head,
    ),
    reader_rule(
        "role-form",
        ".* is no role$",
        "Nothing but blanks and tabs follows a role.",
        "<|start|>user\n<|message|>Hi<|end|>",
        USER,
        rewrite_head,
    ),
    reader_rule(
        "role-unknown",
        "unknown role",
        "The role is system, developer, user, assistant, tool, or a tool's name.",
        "<|start|>asistant<|message|>Hi<|end|>",
        "<|start|>assistant<|message|>Hi<|end|>",
        replace_word(tuple(Role)),
    ),
    reader_rule(
        "channel-unknown",
        "unknown channel",
        "The channel is analysis, commentary or final.",
        "<|start|>assistant<|channel|>finl<|message|>4<|return|>",
        FINAL,
        replace_word(tuple(Channel)),
    ),
    reader_rule(
        "channel-form",
        "a blank stands between <\\|channel\\|>|<\\|channel\\|> stands after",
        "The channel follows its control at once, and precedes <|constrain|>.",
        "<|start|>assistant<|channel|> final<|message|>4<|return|>",
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
        rewrite_head,
    ),
    reader_rule(
        "section-twice",
        "\\S+ stands twice in one head",
        "A head has one channel and one type.",
        "<|start|>assistant<|channel|>final<|channel|>final<|message|>4<|return|>",
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
    ),
    reader_rule(
        "section-empty",
        "nothing follows",
        "<|channel|> and <|constrain|> are followed by a word.",
        "<|start|>assistant<|channel|><|message|>4<|return|>",
        "<|start|>assistant<|message|>4<|return|>",
    ),
    reader_rule(
        "recipient-unknown",
        "unknown recipient",
        "to= names the assistant or a tool, with its namespace.",
        "<|start|>assistant to=search call_id=c1<|channel|>commentary<|message|>{}<|call|>",
        "<|start|>assistant to=browser.search call_id=c1<|channel|>commentary<|message|>{}<|call|>",
    ),
    reader_rule(
        "intent-unknown",
        "unknown intent",
        "The intent is preamble, status or debug.",
        "<|start|>assistant intent=preambel<|channel|>commentary<|message|>First …<|end|>\n"
        "<|start|>assistant<|message|>4<|return|>",
        "<|start|>assistant intent=preamble<|channel|>commentary<|message|>First …<|end|>\n"
        "<|start|>assistant<|message|>4<|return|>",
        replace_word(INTENTS, "intent="),
    ),
    reader_rule(
        "attribute-unknown",
        ".* is no attribute of a frame",
        "Attributes are to, call_id, name, intent and content_type.",
        "<|start|>user nam=bob<|message|>Hi<|end|>",
        "<|start|>user name=bob<|message|>Hi<|end|>",
        replace_word(ATTRIBUTES),
    ),
    reader_rule(
        "attribute-place",
        "\\S+= belongs into the start section|.* follows the constrained type",
        "An attribute is where the grammar has it.",
        "<|start|>assistant<|channel|>final name=a<|message|>4<|return|>",
        "<|start|>assistant name=a<|channel|>final<|message|>4<|return|>",
        rewrite_head,
    ),
    reader_rule(
        "attribute-twice",
        "\\S+= stands twice",
        "An attribute is there once.",
        "<|start|>user name=a name=a<|message|>Hi<|end|>",
        "<|start|>user name=a<|message|>Hi<|end|>",
        remove_repetition,
    ),
    reader_rule(
        "attribute-conflict",
        "\\S+= has two values|content_type=.* is not what|the reply of .* is named",
        "What a head says twice it says alike.",
        "<|start|>user content_type=text<|constrain|>json<|message|>1<|end|>",
        "<|start|>user<|constrain|>json<|message|>1<|end|>",
    ),
    reader_rule(
        "attribute-value",
        ".* is no value of an attribute|the value is empty",
        "A value is visible ASCII without controls; other characters are percent-encoded.",
        "<|start|>user name=<|message|>Hi<|end|>",
        USER,
        rewrite_head,
    ),
)
PROMISE_RULES = (
    reader_rule(
        "body-type",
        "the body is (not (?!UTF-8)|JSON)",
        "A body is of the type behind <|constrain|>: json, yaml, toml or xml.",
        "<|start|>assistant<|constrain|>json<|message|>{a: 1}<|return|>",
        '<|start|>assistant<|constrain|>json<|message|>{"a": 1}<|return|>',
    ),
    reader_rule(
        "return-footer",
        "<\\|return\\|> ends a message that is no final answer",
        "<|return|> ends final answers.",
        "<|start|>user<|message|>Hi<|return|>",
        USER,
        replace_footer,
        level=Severity.WARNING,
    ),
    reader_rule(
        "channel-missing",
        "the \\w+ message has no channel",
        "Where the profile of Harmony holds, messages have channels.",
        "<|start|>assistant<|message|>4<|return|>",
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
        add_channel,
        "harmony",
    ),
    reader_rule(
        "capability",
        ".* is not among the header's capabilities",
        "What the header's capabilities leave out is not used.",
        f'---\nversion: "2.2"\ncapabilities:\n  roles: [assistant]\n---\n{USER}',
        f'---\nversion: "2.2"\ncapabilities:\n  roles: [assistant, user]\n---\n{USER}',
    ),
    reader_rule(
        "version-1",
        "a feature of version 2",
        "A transcript of version 1 uses nothing of version 2.",
        '---\nversion: "1.0"\n---\n<|start|>assistant<|message|>4<|return|>',
        '---\nversion: "1.0"\n---\n<|start|>assistant<|message|>4<|end|>',
    ),
)
READING_RULES = (*HEADER_RULES, HEADER_YAML, *FRAME_RULES, *HEAD_RULES, *CALL_RULES, *PROMISE_RULES)
OTHER = LintRule("other", Severity.ERROR, "The transcript is valid in whatever no other rule names.", "", "")
"""What the reader reports and no rule names."""
