"""The short way through canonical frames reads exactly what the long way does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.conversation import Message
from antiphon.formats.openchatml import Finding, Reader, iter_read
from antiphon.formats.openchatml.head import ToolNames
from antiphon.formats.openchatml.head_reader import places_of, read_canonical, read_head, split
from kit.openchatml import SPELLINGS, TRICKY, transcripts

HEADS = [
    "user",
    "assistant<|channel|>final",
    "assistant intent=preamble<|channel|>commentary",
    "assistant to=functions.f call_id=c=1<|channel|>commentary<|constrain|>json",
    "tool to=assistant call_id=c1 name=functions.f content_type=json<|channel|>commentary",
    "system name=x intent=debug content_type=text",
]
NEARLY = [
    "assistant to=nobody.f<|channel|>commentary",
    "tool name=f",
    "tool to=assistant call_id=c1",
    "user intent=none",
    "user name=a name=b",
    "user call_id=c to=python",
    "user content_type=json<|constrain|>json",
    "user name=a%20b",
    "user\n",
    "user ",
    "functions.f",
    "assistant<|channel|>loud",
    "assistant<|constrain|>json<|channel|>final",
]
WORDS = ["user", "tool", "functions.f", "python", " ", "=", "%41", "json", "final", "<|channel|>", "<|constrain|>",
         " to=", " call_id=", " name=", " intent=", " content_type=", "a", "é", '"']  # fmt: skip
heads = st.one_of(
    st.sampled_from(HEADS + NEARLY),
    st.lists(st.sampled_from(WORDS), max_size=9).map("".join),
    st.tuples(st.sampled_from(HEADS), st.sampled_from(WORDS), st.integers(0, 60)).map(
        lambda change: change[0][: change[2]] + change[1] + change[0][change[2] :]
    ),
)


@pytest.mark.parametrize("head", HEADS)
def test_a_canonical_head_needs_no_second_look(head: str) -> None:
    assert read_canonical(head, ToolNames()) is not None


@pytest.mark.parametrize("head", NEARLY)
def test_any_other_head_gets_one(head: str) -> None:
    assert read_canonical(head, ToolNames()) is None


@settings(max_examples=400)
@given(heads)
def test_both_ways_read_the_same_of_a_head(head: str) -> None:
    found = read_canonical(head, ToolNames())
    if found is None:
        return
    expected = read_head(split(head), ToolNames())
    assert places_of(found, head) == expected.places
    assert replace(found, places=expected.places) == expected


def everything_read(transcript: str, chunk: int, *, keep: bool = True) -> list[object]:
    """All that reading gives: messages with their spelling, findings with their places, the blanks at the end."""
    reader = Reader(strict=False, fragment=True, keep=keep)
    chunks = [transcript[i : i + chunk] for i in range(0, len(transcript), chunk)]
    found: list[object] = []
    for item in iter_read(chunks, reader):
        found += [item, item.extra] if isinstance(item, Message) else [item]
    return [*found, reader.envelope]


FRAMES = [
    *(f"<|start|>{head}<|message|>{{}}<|{end}|>" for head in HEADS + NEARLY for end in ("end", "call", "return")),
    "<|start|>user<|message|>a < b << c<|end|>",
    "<|start|>user<|message|>a<<|end|><|end|>",
    "<|start|>user<|message|>\udc80\n<|end|>",
    "<|start|>user<|message|>" + "<p>" * 80 + "<|end|>",
    f"<|start|>user name={'n' * 5000}<|message|>x<|end|>",
]
pieces = st.one_of(st.sampled_from(FRAMES), st.sampled_from([*TRICKY, *SPELLINGS, " ", "\n", "stray"]))


@settings(max_examples=200)
@given(st.lists(pieces, max_size=6).map("".join), st.booleans())
@example("<|start|>user<|message|>x<|end|>stray<|start|>user<|message|>y<|end|>", True)
def test_both_ways_read_the_same_of_any_text(text: str, keep: bool) -> None:
    assert everything_read(text, len(text) + 1, keep=keep) == everything_read(text, 1, keep=keep)


@given(transcripts())
def test_both_ways_read_the_same_of_a_transcript(transcript: str) -> None:
    assert everything_read(transcript, len(transcript)) == everything_read(transcript, 1)


def test_findings_of_whole_frames_have_their_places() -> None:
    text = "<|start|>user<|message|>a\nb<|end|>\n<|start|>robot<|message|><|end|>\n\n<|start|>user<|message|><|call|>"
    found = [item for item in iter_read(text, Reader(strict=False, fragment=True)) if isinstance(item, Finding)]
    assert [(item.position.line, item.position.column) for item in found] == [(3, 10), (5, 25)]
