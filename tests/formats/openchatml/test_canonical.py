"""The canonical form: every valid transcript has one, which means the same and is its own canonical form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.conformance import load, shipped
from antiphon.conversation import Conversation
from antiphon.errors import ParseError
from antiphon.formats.conformance import Case
from antiphon.formats.openchatml import TranscriptEnvelope, format_transcript, read, validate, write
from antiphon.formats.openchatml.writer import has_comment
from kit.openchatml import conversations, transcripts

VALID = [
    case for case in load(shipped())
    if "--harmony" not in case.flags
    and all(finding.warning for finding in validate(case.input, fragment="--fragment" in case.flags))
]  # fmt: skip


def header_of(conversation: Conversation) -> object:
    envelope = conversation.extra["openchatml"]
    assert isinstance(envelope, TranscriptEnvelope)
    return envelope.header


def hold_the_laws(transcript: str | bytes, *, fragment: bool = False) -> str:
    formatted = format_transcript(transcript, fragment=fragment)
    before, after = read(transcript, fragment=fragment), read(formatted, fragment=fragment)
    assert after.messages == before.messages
    assert header_of(after) == header_of(before)
    assert format_transcript(formatted, fragment=fragment) == formatted
    return formatted


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.id)
def test_the_suites_valid_transcripts_keep_their_meaning(case: Case) -> None:
    hold_the_laws(case.input, fragment="--fragment" in case.flags)


def test_the_suite_has_many_valid_transcripts() -> None:
    assert len(VALID) > 80


@given(transcripts())
def test_transcripts_in_any_spelling_keep_their_meaning(transcript: str) -> None:
    hold_the_laws(transcript)


@given(conversations())
def test_written_conversations_keep_their_meaning(conversation: Conversation) -> None:
    hold_the_laws(write(conversation))


_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


@given(st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda key: key != "version"), _values, max_size=4))
def test_header_values_of_any_kind_keep_their_meaning(fields: dict[str, object]) -> None:
    header = json.dumps({"version": "2.2", **fields})
    transcript = f"---\n{header}\n---\n<|start|>user<|message|>Hi<|end|>"
    if not list(validate(transcript)):
        hold_the_laws(transcript)


H = '---\nversion: "2.2"\n---\n'
CALL = "<|start|>assistant to=functions.f call_id=c<|channel|>commentary<|message|>{}<|call|>"
USER = "<|start|>user<|message|>Hi<|end|>"
CASES = {
    "a bare header and blanks": (
        f"\ufeffversion: 2.2\r\nmodel: m\r\n\r\n<|start|>user  name=a<|message|>Hi<|end|>\n\n\n{USER}",
        f'---\nversion: "2.2"\nmodel: m\n---\n<|start|>user name=a<|message|>Hi<|end|>\n{USER}\n',
    ),
    "the order of attributes, and their place": (
        'version: "2.2"\n<|start|>assistant call_id=c<|channel|>commentary to=functions.f<|message|>{}<|call|>',
        f"{H}{CALL}\n",
    ),
    "a blank behind a control": (
        f"{H}<|start|>user<|constrain|> json<|message|>1<|end|>",
        f"{H}<|start|>user<|constrain|>json<|message|>1<|end|>\n",
    ),
    "a literal block that needs none": (
        'version: "2.2"\n<|start|>user<|message|><|literal|>a <|end|> b<|endliteral|><|end|>',
        f"{H}<|start|>user<|message|>a <<|end|> b<|end|>\n",
    ),
    "a reply under its tool's name": (
        f'version: "2.2"\n{CALL}<|start|>functions.f<|message|>1<|end|>',
        f"{H}{CALL}\n<|start|>tool call_id=c name=functions.f<|message|>1<|end|>\n",
    ),
    "comments of the header": (
        "version: 2.2 # note\r\n# more\r\nmodel: m\r\n\r\n<|start|>user<|message|>Hi<|end|>",
        '---\nversion: "2.2" # note\n# more\nmodel: m\n---\n<|start|>user<|message|>Hi<|end|>\n',
    ),
    "comments between fences": (
        '---\n# a\nversion: "2.2"\n---   \n\n<|start|>user<|message|>Hi<|end|>',
        '---\n# a\nversion: "2.2"\n---\n<|start|>user<|message|>Hi<|end|>\n',
    ),
    "a role that the header allows alone": (
        '---\nversion: "2.2"\ncapabilities:\n  roles: [assistant, functions.*]\n---\n<|start|>assistant to=functions.f'
        ' call_id=c<|channel|>commentary<|message|>{}<|call|>\n\n<|start|>functions.f  call_id=c<|message|>1<|end|>',
        '---\nversion: "2.2"\ncapabilities:\n  roles: [assistant, functions.*]\n---\n<|start|>assistant to=functions.f'
        ' call_id=c<|channel|>commentary<|message|>{}<|call|>\n<|start|>functions.f  call_id=c<|message|>1<|end|>\n',
    ),
    "no frames": ("version: 2.2\n", '---\nversion: "2.2"\n---\n'),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_canonical(name: str) -> None:
    written, canonical = CASES[name]
    assert hold_the_laws(written) == canonical


def test_a_fragment_stays_one() -> None:
    written = "<|start|>user <|message|>Hi<|end|>   "
    assert hold_the_laws(written, fragment=True) == "<|start|>user<|message|>Hi<|end|>\n"
    with pytest.raises(ParseError, match="has no header"):
        format_transcript(written)


@pytest.mark.parametrize(
    ("source", "has"),
    [
        ("a: b", False),
        ("a: b # c", True),
        ("# c\na: b", True),
        ("a: 'x # y'", False),
        ('a: "#"', False),
        ("a: b#c", False),
        ("a: |\n  # text\n", False),
        ("a: | # c\n  text\n", True),
        ("a: [b, # c\n  d]", True),
        ("a: b\n# c", True),
    ],
)
def test_comments_are_found(source: str, has: bool) -> None:
    assert has_comment(source) is has
