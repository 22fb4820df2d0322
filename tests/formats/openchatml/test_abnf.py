"""The grammar in ABNF: it has every valid transcript, and none whose heads or bodies are malformed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.conversation import Conversation
from antiphon.errors import ParseError
from antiphon.formats.openchatml import read, write_bytes
from kit.openchatml import SPELLINGS, TRICKY, conversations, transcripts
from kit.openchatml_abnf import parses
from kit.openchatml_suite import VALID, Sample

HEADER = 'version: "2.2"\n'


def is_valid(transcript: str) -> bool:
    try:
        read(transcript)
    except ParseError:
        return False
    return True


@pytest.mark.parametrize("sample", VALID, ids=lambda sample: sample.id)
def test_every_valid_case_of_the_suite_parses(sample: Sample) -> None:
    declared = tuple(namespace.name for namespace in sample.read().builtins)
    rules = ["transcript", "fragment"] if sample.fragment else ["transcript"]
    assert any(parses(sample.transcript, rule=rule, declared=declared) for rule in rules)


@given(transcripts())
def test_every_spelling_that_is_allowed_parses(transcript: str) -> None:
    assert parses(transcript.encode("utf-8", "surrogateescape"))


@given(conversations())
def test_whatever_is_written_parses(conversation: Conversation) -> None:
    assert parses(write_bytes(conversation))


BODIES = st.lists(
    st.sampled_from([*(t for t in TRICKY if "call" not in t), "<|sta", "start", ">", "<|x|>"]), max_size=7
)


@given(BODIES.map("".join))
@example("<|end<|x|>")
@example("<|literal|><<|endliteral|>")
@example("<|literal|>\udc80<|start|><|endliteral|")
@example("\udc80")
def test_a_body_parses_exactly_when_the_strict_reader_takes_it(body: str) -> None:
    transcript = f"{HEADER}<|start|>user<|message|>{body}<|end|>"
    assert parses(transcript.encode("utf-8", "surrogateescape")) == is_valid(transcript)


WORDS = """
    system developer user assistant tool functions.f browser python moderator to=assistant to=functions.f to=nobody
    call_id=1 name=functions.f name=a%20b intent=preamble intent=loud content_type=text key=1 name= name=" name=a|b
    analysis commentary final secret json <|channel|> <|constrain|> <|end|> <|literal|>
""".split()
HEADS = st.lists(st.tuples(st.sampled_from(["", " ", "\t", "\n"]), st.sampled_from(WORDS)), max_size=7)


@given(HEADS)
@example([("", "moderator"), (" ", "to=assistant")])
def test_no_head_that_the_strict_reader_takes_is_outside_the_grammar(words: list[tuple[str, str]]) -> None:
    head = "".join(blank + word for blank, word in words)
    transcript = f"{HEADER}<|start|>{head}<|message|>{{}}<|end|>"
    assert parses(transcript.encode()) or not is_valid(transcript)


GOOD = "assistant to=functions.f call_id=1<|channel|>commentary content_type=json<|constrain|>json"
BAD = {
    "no role": ("assistant ", ""),
    "a role that is none": ("assistant to=functions.f", "moderator"),
    "a blank before the role": ("assistant", " assistant"),
    "another case": ("assistant to=functions.f", "Assistant"),
    "two blanks of another kind": (" call_id", "\u00a0call_id"),
    "a line break": (" call_id", "\ncall_id"),
    "an attribute that is none": ("call_id=1", "id=1"),
    "an attribute without a value": ("call_id=1", "call_id="),
    "a word without =": ("call_id=1", "call_id"),
    "a control in a value": ("call_id=1", "call_id=a<|end|>b"),
    "a value that is not ASCII": ("call_id=1", "call_id=é"),
    "a recipient that nothing declares": ("functions.f", "nobody"),
    "a namespace without a tool": ("functions.f", "functions."),
    "an intent that is none": ("call_id=1", "intent=loud"),
    "a channel that is none": ("commentary ", "secret "),
    "no channel behind its control": ("commentary ", " "),
    "two channels": ("commentary ", "commentary<|channel|>final "),
    "the type before the channel": ("<|channel|>commentary", "<|constrain|>json<|channel|>commentary"),
    "an id behind the channel": ("content_type=json", "call_id=1"),
    "no type behind its control": ("<|constrain|>json", "<|constrain|>"),
    "two types": ("<|constrain|>json", "<|constrain|>json text"),
    "a control that has no place in a head": ("<|constrain|>", "<|literal|>"),
    "another frame": ("<|channel|>", "<|start|>"),
}


def test_the_head_that_is_mutated_parses() -> None:
    assert parses(f"{HEADER}<|start|>{GOOD}<|message|>{{}}<|call|>".encode())


@pytest.mark.parametrize("mutation", BAD)
def test_a_malformed_head_does_not_parse(mutation: str) -> None:
    right, wrong = BAD[mutation]
    head = GOOD.replace(right, wrong, 1)
    transcript = f"{HEADER}<|start|>{head}<|message|>{{}}<|call|>"
    assert head != GOOD
    assert not is_valid(transcript)
    assert not parses(transcript.encode())


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_control_in_a_body_parses_only_with_its_escape(spelling: str) -> None:
    frame = f"<|start|>user<|message|>a {{}}{spelling} b<|end|>"
    assert parses(frame.format("<").encode(), rule="fragment")
    assert not parses(frame.format("").encode(), rule="fragment")
