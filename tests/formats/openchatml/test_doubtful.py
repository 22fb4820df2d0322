"""What is allowed in a transcript and doubtful, and what is hidden whatever its channel; faults that go on for long."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import DebugCapability, Message, MessageEnded, MessageStarted, Role, TextDelta
from antiphon.errors import VisibilityError
from antiphon.formats.openchatml import EventStream, Finding, iter_read, read, repair, show, shown, validate
from antiphon.formats.openchatml.body import is_json
from antiphon.formats.openchatml.reader import Reader

HEADER = '---\nversion: "2.2"\n---\n'
CALL = "<|start|>assistant to=functions.f call_id=c<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
REPLY = "<|start|>tool name=functions.f call_id=c<|channel|>commentary<|message|>"
FIELD = '<|start|>assistant<|channel|>final<|message|>\n{"tool_calls": []}<|return|>\n'
USER = "<|start|>user<|message|>q<|end|>\n"


def found(transcript: str) -> list[tuple[str, str]]:
    """What is wrong, in both ways of reading, which have to agree: the code and the place."""
    stored = list(repair(transcript, fragment=False)[1])
    passed = list(validate(transcript))
    assert passed == stored
    assert all(finding.warning for finding in stored)
    return [(finding.code, str(finding.position)) for finding in stored]


# -- reflection markers ------------------------------------------------------------------------------------------------


@pytest.mark.spec("OCM-75")
@pytest.mark.parametrize(
    "head", ["assistant", "assistant<|channel|>final", "assistant intent=preamble<|channel|>commentary"]
)
@pytest.mark.parametrize("marker", ["<|start_reflect|>", "<|start_introspect|>", "<|end_reason|>"])
def test_a_reflection_marker_outside_analysis_is_reported_and_not_shown(head: str, marker: str) -> None:
    transcript = f"{HEADER}<|start|>{head}<|message|>So < be it.\n12{marker}3<|end|>"
    assert ("E-PERM-VISIBILITY", "5:3") in found(transcript)
    [message] = read(transcript).messages
    assert show(message) == "So < be it.\n123"
    assert [one.text for one in shown([message])] == ["So < be it.\n123"]
    assert show(message, debug=DebugCapability("me")) == message.text


@pytest.mark.spec("OCM-75")
@pytest.mark.parametrize(
    "frame",
    [
        "assistant<|channel|>analysis<|message|><|start_reflect|>x<|end|>",
        "user<|message|><|start_reflect|>x<|end|>",
        "assistant<|message|><|literal|><|start_reflect|><|endliteral|><|end|>",
        "assistant<|message|><|start_<<|end|>reflect|><|end|>",
    ],
)
def test_markers_in_reasoning_and_as_text_are_no_fault(frame: str) -> None:
    assert [code for code, _ in found(f"{HEADER}<|start|>{frame}")] in ([], ["E-STREAM-TRUNCATED"])


def test_a_marker_is_found_wherever_the_text_is_cut() -> None:
    frame = "<|start|>assistant<|message|>a<|start_b<|start_introspect|><|end|>"
    transcript = HEADER + frame
    for size in range(1, 30):
        chunks = [transcript[i : i + size] for i in range(0, len(transcript), size)]
        places = [item.position.column for item in iter_read(chunks, Reader()) if isinstance(item, Finding)]
        assert places == [frame.index("<|start_in") + 1]


@pytest.mark.spec("OCM-75", "OCM-100")
@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize(
    ("text", "visible"),
    [("So<|start_reflect|> be <|end_reason|>it.", "So be it."), ("1 < 2 <|start_x", "1 < 2 <|start_x"), ("<|", "<|")],
)
def test_markers_are_not_streamed_to_users(text: str, visible: str, size: int) -> None:
    message = Message(role=Role.ASSISTANT, channel="final")
    stream = EventStream("r", accept=["response.delta"])
    events = stream.feed(MessageStarted(message))
    for i in range(0, len(text), size):
        events += stream.feed(TextDelta(text[i : i + size]))
    events += stream.feed(MessageEnded(replace(message, text=text)))
    assert "".join(event["delta"] for event in events) == visible


# -- what is not displayed ---------------------------------------------------------------------------------------------


@pytest.mark.spec("OCM-67")
@pytest.mark.parametrize("channel", [None, "final", "commentary"])
def test_what_is_for_debugging_is_not_displayed(channel: str | None) -> None:
    message = Message(role=Role.ASSISTANT, text="x", channel=channel, intent="debug")
    assert shown([message]) == []
    with pytest.raises(VisibilityError):
        show(message)


# -- replies, deadlines, two forms of a call ---------------------------------------------------------------------------


@pytest.mark.spec("OCM-113", "OCM-94")
@pytest.mark.parametrize(
    ("body", "is_doubtful"),
    [
        ('{"ok":false}', True),
        ('{"ok":false,"error":null}', True),
        ('{"ok":false,"error":{}}', True),
        ('{"ok":false,"error":17}', True),
        ('{"ok":true,"error":{"code":"E-TOOL-TIMEOUT"}}', True),
        ('{"ok":false,"error":{"code":"E-TOOL-TIMEOUT"}}', False),
        ('{"ok":false,"error":"gone"}', False),
        ('{"ok":true,"content":1,"error":null}', False),
        ('{"ok":"no"}', False),
        ("not found", False),
    ],
)
def test_a_reply_that_does_not_say_what_went_wrong_is_reported(body: str, is_doubtful: bool) -> None:
    expected = [("E-CALL-SCHEMA", f"5:{len(REPLY) + 1}")] if is_doubtful else []
    assert found(f"{HEADER}{CALL}{REPLY}{body}<|end|>") == expected


@pytest.mark.spec("OCM-91")
@pytest.mark.parametrize("deadline", ["-1", "0", "1.5", "true", '"10"', "null"])
@pytest.mark.parametrize("tool", ["functions.f", "python"])
def test_a_deadline_that_is_none_is_reported(tool: str, deadline: str) -> None:
    head = f"<|start|>assistant to={tool} call_id=c<|channel|>commentary<|message|>"
    assert found(f'{HEADER}{head}{{"deadline_ms": {deadline}}}<|call|>') == [("E-CALL-SCHEMA", f"4:{len(head) + 1}")]
    assert found(f'{HEADER}{head}{{"deadline_ms": 5, "n": {deadline}}}<|call|>') == []


@pytest.mark.spec("OCM-74")
@pytest.mark.parametrize(
    ("frames", "lines"),
    [
        (CALL + FIELD, [5]),
        (FIELD + CALL, [6]),
        (CALL + REPLY + "r<|end|>\n" + FIELD, [6]),
        (USER + CALL + USER + FIELD, []),
        (FIELD, []),
        (CALL + FIELD.replace('"tool_calls"', '"calls"'), []),
        (CALL + FIELD.replace("\n{", "So: {"), []),
    ],
)
def test_a_turn_that_calls_in_two_forms_is_reported(frames: str, lines: list[int]) -> None:
    assert [place.partition(":")[0] for _, place in found(HEADER + frames)] == list(map(str, lines))


# -- heads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        ("assistant<|channel|>final<|channel|>final", "Each message has exactly one channel."),
        ("assistant<|constrain|>json<|constrain|>json", "A body has one type."),
    ],
)
def test_a_section_that_stands_twice_has_a_hint_of_its_own(head: str, hint: str) -> None:
    [finding] = validate(f"{HEADER}<|start|>{head}<|message|>1<|return|>")
    assert finding.hint == hint


@pytest.mark.parametrize("begin", ["<|start|>user", "words ", "<|end|>"])
def test_a_fault_that_goes_on_is_reported_once(begin: str) -> None:
    transcript = f"{HEADER}{begin}{'x' * 3_000_000}\n{USER}"
    [finding] = validate(transcript)
    conversation, [stored] = repair(transcript)
    assert finding.position == stored.position
    assert len(stored.text) > 3_000_000
    assert [message.text for message in conversation.messages] == ["q"]


# -- JSON --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("OCM-70", "OCM-135")
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [500, 1000, 100_000])
def test_json_is_json_however_deeply_it_is_nested(opened: str, closed: str, depth: int) -> None:
    head = f"{HEADER}<|start|>assistant<|channel|>final<|constrain|>json<|message|>"
    body = opened * depth + "1" + closed * depth
    assert list(validate(f"{head}{body}<|return|>")) == []
    for broken in (body[:-1], body + closed, body.replace("1", "01"), body.replace("1", "NaN")):
        assert [finding.code for finding in validate(f"{head}{broken}<|return|>")] == ["E-BODY-CONSTRAINT-VIOLATION"]


TOKENS = [
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    '"a"',
    '"\\u00e9"',
    '"\\x"',
    "1",
    "-0",
    "01",
    "1.5e+3",
    "1.",
    "true",
    "nul",
    " ",
    "\n",
]


def _refuse(constant: str) -> None:
    raise ValueError(constant)


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join) | st.text(max_size=9))
def test_what_is_json_is_what_the_standard_library_says(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        assert not is_json(text)
    else:
        assert is_json(text)


def test_a_role_that_is_misspelt_is_the_one_thing_that_is_wrong() -> None:
    [finding] = validate(f"{HEADER}{USER}<|start|>assitant<|channel|>final<|message|>a<|return|>\n")
    assert (finding.warning, "assitant" in finding.message) == (False, True)
