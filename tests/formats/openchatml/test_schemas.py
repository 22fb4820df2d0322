"""The JSON Schemas: what we write keeps them, what they refuse is refused, and the files are theirs."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, DebugCapability, Event, FinishReason, TurnEnded, Usage
from antiphon.errors import ParseError
from antiphon.formats.openchatml import (
    SCHEMAS,
    SUMMARIES,
    EventStream,
    TranscriptEnvelope,
    from_json,
    openchatml,
    read,
    to_json,
)
from kit.openchatml import conversations, transcripts
from kit.openchatml_schemas import FOLDER, files
from kit.openchatml_suite import VALID, Sample

REFUSED_ON_USE = {"header-settings-out-of-range"}
"""Read, since settings are judged where they are used (A-O31); the schemas say what to write."""
CHECKS = {name: jsonschema_rs.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def test_the_files_are_the_schemas() -> None:
    found = {file.name: file.read_text("utf-8") for file in FOLDER.glob("*.json")}
    assert found == files(), "write them anew: python tests/kit/openchatml_schemas.py"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_of_2020_12(name: str) -> None:
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(SCHEMAS[name])


@pytest.mark.parametrize("sample", VALID, ids=lambda sample: sample.id)
def test_headers_and_projections_of_the_suite_are_valid(sample: Sample) -> None:
    conversation = sample.read()
    envelope = conversation.extra["openchatml"]
    assert isinstance(envelope, TranscriptEnvelope)
    good = sample.id not in REFUSED_ON_USE
    if envelope.header is not None:
        assert CHECKS["header"].is_valid({"version": envelope.header.version, **envelope.header.fields}) == good
    assert CHECKS["projection"].is_valid(to_json(conversation)) == good
    assert all(CHECKS["projection"].is_valid(message) for message in to_json(conversation)["messages"])


@given(conversations() | transcripts().map(read))
def test_whatever_is_projected_is_valid(conversation: Conversation) -> None:
    assert list(CHECKS["projection"].iter_errors(to_json(conversation))) == []


@pytest.mark.parametrize("version", ["2.2", "1.0", 2.2])
def test_a_version_may_be_text_or_the_number_that_yaml_makes_of_it(version: object) -> None:
    assert CHECKS["header"].is_valid({"version": version})


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"version": "3.0"},
        {"version": "2"},
        {"version": 3.1},
        {"version": None},
        {"version": "2.2", "model": 5},
        {"version": "2.2", "generation_settings": [1]},
        {"version": "2.2", "generation_settings": {"temperature": 99}},
        {"version": "2.2", "generation_settings": {"reasoning_effort": "enormous"}},
        {"version": "2.2", "generation_settings": {"top_k": 1.5}},
        {"version": "2.2", "generation_settings": {"builtin_tools": [1]}},
        {"version": "2.2", "capabilities": {"channels": ["secret"]}},
        {"version": "2.2", "capabilities": {"tokens": ["<|im_start|>"]}},
        {"version": "2.2", "profiles": {"harmony": {"enabled": "yes"}}},
        {"version": "2.2", "profiles": {"harmony": {"require_channels": ["secret"]}}},
    ],
)
def test_a_mutated_header_is_not_valid(header: dict[str, Any]) -> None:
    assert not CHECKS["header"].is_valid(header)


EXAMPLE: dict[str, Any] = {
    "role": "assistant",
    "channel": "final",
    "content": "Visible reply",
    "tool_call": {"id": "abc123", "recipient": "functions.w", "content_type": "json", "arguments": "{}"},
    "thinking": "Private reasoning (analysis)",
    "intent": "preamble",
}


def test_the_object_of_the_specification_is_valid() -> None:
    assert CHECKS["projection"].is_valid(EXAMPLE)
    assert from_json(EXAMPLE)


KEYS = "role channel content tool_call thinking intent ocm".split()
PARTS: list[Any] = [
    None, "", "x", 1, [], {}, "user", "assistant", "tool", "analysis", "final", "preamble", {"end": "return"},
    {"end": "call"}, {"end": []}, {"to": "functions.f"}, {"name": "a"}, {"channel": None}, {"channel": "final"},
    {"constrain": 1}, {"id": "1", "recipient": "python", "arguments": "x"}, {"id": "1", "recipient": "python"},
]  # fmt: skip


@given(
    st.sampled_from(
        [EXAMPLE, *({k: EXAMPLE[k] for k in ("role", "channel", b)} for b in ("content", "thinking", "tool_call"))]
    ),
    st.dictionaries(st.sampled_from([*KEYS, "tool_calls"]), st.sampled_from(PARTS), max_size=3),
    st.sets(st.sampled_from(KEYS), max_size=2),
)
def test_what_the_schema_refuses_from_json_refuses(
    message: dict[str, Any], changes: dict[str, Any], dropped: set[str]
) -> None:
    mutated = {key: value for key, value in {**message, **changes}.items() if key not in dropped}
    if CHECKS["projection"].is_valid(mutated):
        return
    with pytest.raises(ParseError):
        from_json({"messages": [mutated]})


@pytest.mark.parametrize(
    "value",
    [
        {"messages": {}},
        {"messages": [], "more": 1},
        {"messages": [], "version": 2},
        {"messages": [], "header": {"version": "2.2"}},
        {"role": "user", "channel": "final"},
        {"role": "tool", "channel": "final", "content": "x"},
        {"role": "user", "content": "x", "tool_calls": []},
        {"role": "assistant", "channel": "final", "thinking": "x"},
        {"role": "user", "channel": "analysis", "content": "x", "ocm": {"channel": None}},
    ],
)
def test_a_mutated_projection_is_neither_valid_nor_read(value: dict[str, Any]) -> None:
    assert not CHECKS["projection"].is_valid(value)
    with pytest.raises(ParseError):
        from_json(value)


REPLIES = st.lists(
    st.sampled_from([
        "<|start|>assistant", "<|channel|>final", "<|channel|>analysis", "<|message|>", "a\n\nb", "<|end|>",
        " intent=preamble<|channel|>commentary", " to=functions.f call_id=1", "<|call|>", "<|return|>", "odd",
        "<|channel|>odd",
    ])
).map("".join)  # fmt: skip


def wire(reply: str, reason: FinishReason, debug: DebugCapability | None) -> list[dict[str, Any]]:
    parser, stream = openchatml([]).parser(), EventStream("r1", debug=debug)
    events: list[Event] = [*parser.feed([reply]), *parser.close(), TurnEnded(reason, Usage())]
    return [sent for event in events for sent in stream.feed(event)] + stream.tool_cancel("1", "late")


@given(REPLIES, st.sampled_from(FinishReason), st.booleans())
def test_every_event_is_valid(reply: str, reason: FinishReason, revealed: bool) -> None:
    for event in wire(reply, reason, DebugCapability("test") if revealed else None):
        assert list(CHECKS["events"].iter_errors(event)) == []


EVENT = {"type": "response.delta", "message_id": "r1.0", "seq": 0, "channel": "final", "delta": "x"}
ERROR = {"type": "error", "code": "E-STREAM-TRUNCATED", "message": SUMMARIES["E-STREAM-TRUNCATED"]}


def test_an_error_that_no_message_caused_has_neither_id_nor_number() -> None:
    assert CHECKS["events"].is_valid(ERROR)
    assert not CHECKS["events"].is_valid({**ERROR, "seq": 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "response.text"},
        {"type": "response.done"},
        {"type": "tool.cancel"},
        {"seq": -1},
        {"seq": "0"},
        {"message_id": ""},
        {"channel": "analysis"},
        {"delta": ""},
        {"delta": None},
        {"more": 1},
    ],
)
def test_a_mutated_event_is_not_valid(changes: dict[str, Any]) -> None:
    assert CHECKS["events"].is_valid(EVENT)
    assert not CHECKS["events"].is_valid({**EVENT, **changes})
