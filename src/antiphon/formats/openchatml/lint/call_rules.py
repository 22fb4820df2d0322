"""The rules of the specification for calls and their replies."""

from .examples import CALL
from .fixes import add_call_id, add_channel, add_name, replace_footer
from .rule import Severity, reader_rule

CALL_RULES = (
    reader_rule(
        "call-id-missing",
        "the call has no call_id",
        "A call has a call_id.",
        "<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
        CALL,
        add_call_id,
    ),
    reader_rule(
        "call-id-twice",
        "the call_id .* is used twice",
        "A call_id is unique in the transcript.",
        CALL + CALL,
        CALL + CALL.replace("c1", "c2"),
    ),
    reader_rule(
        "call-channel",
        ".* are called on",
        "Functions are called on commentary, built-in tools on analysis too.",
        CALL.replace("<|channel|>commentary", ""),
        CALL,
        add_channel,
    ),
    reader_rule(
        "call-footer",
        "<\\|call\\|> ends a message that is no call|the call ends with",
        "<|call|> ends calls, and nothing else does.",
        CALL.replace("<|call|>", "<|end|>"),
        CALL,
        replace_footer,
    ),
    reader_rule(
        "call-arguments",
        "the arguments of|\\S+ takes no arguments|deadline_ms is|the schema of|functions\\..*: ",
        "A call's arguments are an object that fits its tool.",
        CALL.replace("{}", "[]"),
        CALL,
    ),
    reader_rule(
        "reply-name-missing",
        "a tool's reply has no name=",
        "A tool's reply names its tool.",
        CALL + "<|start|>tool call_id=c1<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        add_name,
    ),
    reader_rule(
        "reply-id-missing",
        "the tool's reply has no call_id",
        "A tool's reply has the call_id of its call.",
        CALL + "<|start|>tool name=functions.f<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        add_call_id,
    ),
    reader_rule(
        "reply-to-nothing",
        "the reply to .* answers no call|no open call of",
        "A tool's reply answers a call before it.",
        "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
    ),
    reader_rule(
        "reply-twice",
        ".* was answered before",
        "A call has one reply.",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>\n" * 2,
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        level=Severity.WARNING,
    ),
    reader_rule(
        "reply-of-another",
        ".* answers a call of",
        "A reply comes from the tool that was called.",
        CALL + "<|start|>tool call_id=c1 name=functions.g<|message|>1<|end|>",
        CALL + "<|start|>tool call_id=c1 name=functions.f<|message|>1<|end|>",
        level=Severity.WARNING,
    ),
)
