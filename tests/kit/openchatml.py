"""Conversations and transcripts for the property tests of this room."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from antiphon.conversation import Conversation, End, Message, ReasoningEffort, Role, Settings, ToolNamespace
from antiphon.formats.openchatml.spelling import CONTROLS

SPELLINGS = [control.spelling for control in CONTROLS]
TRICKY = [
    *SPELLINGS,
    *(f"<{s}" for s in SPELLINGS),
    "<",
    "<<",
    "|",
    "|end|>",
    "<|",
    "\n",
    "\r\n",
    "\0",
    "é",
    "\udc80",
    "---\n",
]

texts = st.lists(st.one_of(st.sampled_from(TRICKY), st.text(max_size=8)), max_size=8).map("".join)
"""Text rich in everything that the format gives a meaning to."""
values = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
"""What a user may put into a header."""
tool_names = st.sampled_from(["functions.get", "functions.a-b", "browser.search", "python"])

_plain = st.builds(
    Message,
    role=st.sampled_from([Role.SYSTEM, Role.DEVELOPER, Role.USER]),
    text=texts,
    name=st.none() | values,
    channel=st.none(),
    content_type=st.none() | st.sampled_from(["text", "markdown"]),
)
_assistant = st.builds(
    Message,
    role=st.just(Role.ASSISTANT),
    text=texts,
    channel=st.sampled_from([None, "analysis", "commentary", "final"]),
    intent=st.sampled_from([None, "preamble", "status", "debug"]),
    end=st.sampled_from([End.END, End.RETURN]),
)


@st.composite
def _exchange(draw: st.DrawFn) -> list[Message]:
    """Calls and their replies, in any order; ids are made unique afterwards."""
    tools = draw(st.lists(tool_names, min_size=1, max_size=3))
    calls, replies = [], []
    for i, tool in enumerate(tools):
        call_id = f"{draw(values)}{i}"
        body = draw(st.sampled_from(['{"a": 1}', "{}", '{"t": "<|end|>"}']))
        calls.append(Message(role=Role.ASSISTANT, text=body, recipient=tool, channel="commentary", content_type="json",
                             constrained=True, call_id=call_id, end=End.CALL))  # fmt: skip
        replies.append(Message(role=Role.TOOL, text=draw(texts), name=tool, recipient="assistant", channel="commentary",
                               call_id=call_id))  # fmt: skip
    return calls + draw(st.permutations(replies))


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Valid conversations that OpenChatML can represent."""
    groups = draw(
        st.lists(st.one_of(_plain.map(lambda m: [m]), _assistant.map(lambda m: [m]), _exchange()), max_size=4)
    )
    messages = []
    for n, group in enumerate(groups):
        for message in group:
            call_id = f"{message.call_id}-{n}" if message.call_id else None
            messages.append(replace(message, call_id=call_id))
    return Conversation(
        messages=tuple(messages),
        builtins=tuple(
            ToolNamespace(name) for name in draw(st.lists(st.sampled_from(["browser", "python"]), unique=True))
        ),
        settings=Settings(reasoning_effort=draw(st.none() | st.sampled_from(list(ReasoningEffort)))),
    )


@st.composite
def transcripts(draw: st.DrawFn) -> str:
    """Valid transcripts in every spelling that is allowed: blanks, attribute order, literal blocks, header forms."""
    header = draw(st.sampled_from(HEADERS))
    frames = draw(st.lists(_frame(), max_size=4))
    blanks = st.sampled_from(["", "\n", "\n\n", " \r\n\t"])
    body = "".join(draw(blanks if n else st.just("")) + frame.replace("ID", f"id{n}") for n, frame in enumerate(frames))
    return header + body + (draw(blanks) if frames else "")


HEADERS = [
    '---\nversion: "2.2"\n---\n',
    "version: 2.2\n",
    "\ufeffversion: 2.2\r\nx-unknown: {a: [1, 2]}\r\n",
    '---\nversion: 2.10 # note\nmodel: m\ncapabilities:\n  tokens: ["<|start|>", "<|message|>", "<|channel|>",'
    ' "<|call|>", "<|constrain|>", "<|return|>", "<|end|>", "<|literal|>", "<|endliteral|>"]\n---   \n\n',
]


@st.composite
def _frame(draw: st.DrawFn) -> str:
    gap = draw(st.sampled_from([" ", "\t", "  "]))
    blank = draw(st.sampled_from(["", " "]))
    kind = draw(st.sampled_from(["user", "final", "call", "tagged call", "exchange"]))
    body = draw(bodies())
    match kind:
        case "user":
            return f"<|start|>user{gap}name=a%20b{blank}<|message|>{body}<|end|>"
        case "final":
            return f"<|start|>assistant<|channel|>final{gap}content_type=text{blank}<|message|>{body}<|return|>"
        case "call":
            tag = f"<|channel|>commentary{blank}<|constrain|>{blank}json"
            return f"<|start|>assistant{gap}call_id=ID{gap}to=functions.f{blank}{tag}<|message|>{{}}<|call|>"
        case "tagged call":
            return f"<|start|>assistant call_id=ID<|channel|>commentary{gap}to=python{blank}<|message|>{body}<|call|>"
        case _:
            call = "<|start|>assistant to=functions.f call_id=ID<|channel|>commentary<|message|>{}<|call|>"
            return f"{call}<|start|>functions.f{gap}to=assistant<|channel|>commentary<|message|>{body}<|end|>"


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Valid spelled bodies: text, escapes and literal blocks."""
    plain = st.sampled_from(["a", "\n", " ", "é", "|end|>", "x<y", "\0"])
    escapes = st.sampled_from([f"<{s}" for s in SPELLINGS] + [f"<<{s}" for s in SPELLINGS])
    block = st.lists(st.sampled_from(["<", "a\n", "\udc80", *SPELLINGS[:-1]]), max_size=3).map(
        lambda parts: f"<|literal|>{''.join(parts)}<|endliteral|>"
    )
    return "".join(draw(st.lists(st.one_of(plain, escapes, block), max_size=6)))


def long_transcript(megabytes: int) -> bytes:
    """A valid transcript of about so many millions of bytes."""
    head = 'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n<|start|>assistant<|message|>Hello<|return|>\n'
    text = "All the words that somebody said about <<|end|>, once more. " * 70
    frame = f"<|start|>user<|message|>{text}<|end|>\n<|start|>assistant<|message|>{text}<|return|>\n"
    return head.encode() + frame.encode() * (megabytes * 1_000_000 // len(frame))
