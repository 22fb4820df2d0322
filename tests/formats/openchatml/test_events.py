"""The streaming events: what a user interface gets, and what it never gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import (
    DebugCapability,
    End,
    Event,
    FinishReason,
    Message,
    MessageEnded,
    Role,
    TextDelta,
    ToolSpec,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.errors import VisibilityError
from antiphon.formats.openchatml import (
    ANTIPHON_CAPABILITIES,
    SUMMARIES,
    Capabilities,
    DeclaredTools,
    EventReader,
    EventStream,
    openchatml,
    reflections,
    show,
    shown,
    sse,
)
from antiphon.formats.openchatml.document import EVENTS

REPLY = (
    " intent=preamble<|channel|>commentary<|message|>Plan<|end|><|start|>assistant<|channel|>analysis<|message|>secret"
    "<|end|><|start|>assistant<|channel|>final<|message|>One.\n\nTwo.<|return|>"
)


def events(reply: str, reason: FinishReason = FinishReason.STOP_EOS) -> list[Event]:
    parser = openchatml([]).parser()
    return [*parser.feed([reply]), *parser.close(), TurnEnded(reason, Usage())]


SHOWN = [event for event in EVENTS if not event.startswith("frame.")]


def sent(
    reply: str, reason: FinishReason = FinishReason.STOP_EOS, *, accept: Sequence[str] | None = SHOWN, **options: Any
) -> list[dict[str, Any]]:
    """What is sent to somebody who takes the events that show a reply."""
    stream = EventStream("r1", accept=accept, **options)
    return [wire for event in events(reply, reason) for wire in stream.feed(event)]


def types_and_deltas(wire: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(event["type"], event.get("delta")) for event in wire]


@pytest.mark.spec("OCM-100", "OCM-102", "OCM-105", "OCM-167", "OCM-05")
def test_a_turn_is_deltas_with_boundaries_and_a_done() -> None:
    wire = sent(REPLY)
    assert types_and_deltas(wire) == [
        ("response.delta", "Plan"),
        ("response.delta.flush", None),
        ("response.delta", "One.\n\n"),
        ("response.delta.flush", None),
        ("response.delta", "Two."),
        ("response.delta.flush", None),
        ("response.done", None),
    ]
    assert [event["seq"] for event in wire] == list(range(7))
    assert [event.get("channel") for event in wire][:3] == ["commentary", None, "final"]
    assert wire[-1]["end_reason"] == "return"


@pytest.mark.spec("OCM-104")
def test_each_message_has_its_own_id_so_streams_may_interleave() -> None:
    assert [event["message_id"] for event in sent(REPLY)] == ["r1.0"] * 2 + ["r1.2"] * 5


@pytest.mark.spec("OCM-55", "OCM-78", "OCM-112", "OCM-51")
def test_reasoning_is_sent_to_nobody_without_the_debug_capability() -> None:
    assert "secret" not in json.dumps(sent(REPLY))
    privileged = sent(REPLY, debug=DebugCapability("tests"))
    assert ("response.reasoning_text.delta", "secret") in types_and_deltas(privileged)


@pytest.mark.spec("OCM-101")
def test_a_cancelled_turn_says_stop_rendering() -> None:
    assert types_and_deltas(sent("<|message|>Hal", FinishReason.CANCELLED))[-1] == ("response.cancel", None)


@pytest.mark.spec("OCM-105", "OCM-139")
@pytest.mark.parametrize("reason", [FinishReason.LENGTH_OUTPUT, FinishReason.ERROR, FinishReason.TIMEOUT])
def test_a_turn_that_breaks_off_is_an_error_and_not_done(reason: FinishReason) -> None:
    wire = sent("<|message|>Hal", reason)
    assert (wire[-1]["type"], wire[-1]["code"]) == ("error", "E-STREAM-TRUNCATED")
    assert "response.done" not in [event["type"] for event in wire]


@pytest.mark.spec("OCM-103", "OCM-92")
def test_a_cancelled_call_names_its_id_and_reason() -> None:
    [event] = EventStream("r1").tool_cancel("wx1", "deadline")
    assert (event["type"], event["call_id"], event["reason"]) == ("tool.cancel", "wx1", "deadline")


@pytest.mark.spec("OCM-19", "OCM-15")
def test_only_what_the_other_side_takes_is_sent() -> None:
    assert {event["type"] for event in sent(REPLY, accept=["response.delta", "x"])} == {"response.delta"}
    theirs = Capabilities(streaming=("response.delta", "x"), channels=("final",))
    agreed = ANTIPHON_CAPABILITIES.negotiate(theirs)
    assert agreed.streaming == ("response.delta",)
    assert agreed.channels == ("final",)
    assert agreed.roles == ANTIPHON_CAPABILITIES.roles


@given(st.text("a\n", max_size=12), st.integers(0, 12))
def test_boundaries_are_the_same_wherever_the_text_is_cut(text: str, cut: int) -> None:
    def boundaries(*parts: str) -> list[int]:
        stream, passed, found = EventStream("r"), 0, []
        for event in events("<|message|>")[:1]:
            stream.feed(event)
        for part in parts:
            for wire in stream.feed(TextDelta(part)):
                passed += len(wire.get("delta", ""))
                found += [passed] if wire["type"] == "response.delta.flush" else []
        return found

    assert boundaries(text[:cut], text[cut:]) == boundaries(text)


def test_an_event_is_a_server_sent_event_of_its_type() -> None:
    assert sse({"type": "response.delta", "delta": "é\n"}) == (
        b'event: response.delta\ndata: {"type": "response.delta", "delta": "\\u00e9\\n"}\n\n'
    )


@pytest.mark.spec("OCM-03", "OCM-48", "OCM-52", "OCM-112", "OCM-165", "OCM-168")
def test_users_see_their_own_words_answers_and_preambles() -> None:
    hidden = [
        Message(role=Role.SYSTEM, text="s"),
        Message(role=Role.DEVELOPER, text="d"),
        Message(role=Role.ASSISTANT, text="a", channel="analysis", intent="preamble"),
        Message(role=Role.ASSISTANT, text="c", channel="commentary"),
        Message(role=Role.ASSISTANT, text="c", channel="commentary", intent="status"),
        Message(role=Role.ASSISTANT, text="{}", channel="final", recipient="functions.f"),
        Message(role=Role.TOOL, text="t", name="functions.f"),
    ]
    visible = [m.message for m in events(REPLY) if isinstance(m, MessageEnded) and m.message.channel != "analysis"]
    assert shown([*hidden, *visible]) == visible
    assert all(visible_to_user(m) for m in visible)


@pytest.mark.spec("OCM-49", "OCM-140", "OCM-55")
def test_hidden_content_needs_the_debug_capability() -> None:
    thought = Message(role=Role.ASSISTANT, text="secret", channel="analysis")
    with pytest.raises(VisibilityError) as raised:
        show(thought)
    assert raised.value.code == "E-PERM-VISIBILITY"
    assert "secret" not in str(raised.value)
    assert show(thought, debug=DebugCapability("tests")) == "secret"
    assert shown([thought], debug=DebugCapability("tests")) == [thought]


@pytest.mark.spec("OCM-45")
def test_the_roles_are_ordered_by_authority() -> None:
    assert [a.outranks(b) for a, b in zip(list(Role), list(Role)[1:], strict=False)] == [True] * 4


@pytest.mark.spec("OCM-76", "OCM-77")
def test_reasoning_can_be_split_at_its_markers() -> None:
    text = "a<|start_reflect|>b<|end_reflect|>c<|start_reason|>d<|start_introspect|>e"
    assert [(r.kind, r.text) for r in reflections(text)] == [
        (None, "a"), ("reflect", "b"), (None, "c"), ("reason", "d"), ("introspect", "e"),
    ]  # fmt: skip


@pytest.mark.spec("OCM-133", "OCM-134", "OCM-135", "OCM-136", "OCM-137", "OCM-138", "OCM-139", "OCM-140", "OCM-141")
def test_every_code_has_a_summary_that_is_safe_for_users() -> None:
    assert set(SUMMARIES) == {
        "E-PARSE-HEADER", "E-PARSE-CHANNEL-MISSING", "E-BODY-CONSTRAINT-VIOLATION", "E-CALL-SCHEMA", "E-TOOL-TIMEOUT",
        "E-TOOL-CANCELLED", "E-STREAM-TRUNCATED", "E-PERM-VISIBILITY",
    }  # fmt: skip
    assert all("<|" not in summary and "E-" not in summary for summary in SUMMARIES.values())


CALLS = (
    " intent=preamble<|channel|>commentary<|message|>Plan<|end|><|start|>assistant to=functions.f call_id=a"
    '<|channel|>commentary<|constrain|>json<|message|>{"x": 1}<|call|>'
)
REPLY_TO_A = Message(
    role=Role.TOOL, name="functions.f", recipient="assistant", call_id="a", channel="commentary", text='{"ok": true}'
)


@pytest.mark.spec("OCM-103", "OCM-104")
def test_a_call_is_its_name_its_id_and_its_arguments_as_they_come() -> None:
    wire = sent(CALLS, FinishReason.TOOL_CALL)
    assert [(event["type"], event.get("call_id")) for event in wire[2:]] == [
        ("tool.call", "a"), ("tool.call.delta", "a"), ("response.done", "a"),
    ]  # fmt: skip
    started, arguments, done = wire[2:]
    assert (started["recipient"], started["channel"], started["content_type"]) == ("functions.f", "commentary", "json")
    assert (arguments["delta"], done["end_reason"]) == ('{"x": 1}', "call")
    assert {event["message_id"] for event in wire[2:]} == {"r1.1"}


@pytest.mark.parametrize("reason", [FinishReason.LENGTH_OUTPUT, FinishReason.STOP_EOS, FinishReason.STOP_SEQUENCE])
def test_a_call_that_breaks_off_is_not_done(reason: FinishReason) -> None:
    wire = sent(CALLS.removesuffix("}<|call|>"), reason)
    assert [event["type"] for event in wire[2:]] == ["tool.call", "tool.call.delta", "error"]
    assert wire[-1]["code"] == "E-STREAM-TRUNCATED"


def test_a_cancelled_call_is_named_by_its_own_message_and_a_reply_is_one() -> None:
    stream = EventStream("r1", accept=SHOWN)
    for event in events(CALLS, FinishReason.TOOL_CALL):
        stream.feed(event)
    (reply,) = stream.tool_reply(REPLY_TO_A)
    (cancelled,) = stream.tool_cancel("a", "too slow")
    assert (reply["message_id"], reply["name"], reply["content"]) == ("r1.2", "functions.f", '{"ok": true}')
    assert cancelled["message_id"] == "r1.1"


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        CALLS,
        "<|channel|>final<|message|>Only.<|return|>",
        "<|message|>No channel.<|return|>",
        " name=Ann<|channel|>final<|message|>One.<|end|><|start|>assistant name=Bob<|message|>Two.<|return|>",
        "<|channel|>final<|message|>Let me look.<|end|><|start|>assistant to=python call_id=p<|channel|>commentary"
        "<|message|>1<|call|>",
        "<|channel|>final<|constrain|>json<|message|>{}<|end|>",
        " content_type=text<|message|><|return|>",
        " intent=status<|channel|>final<|message|>x<|return|>",
    ],
)
def test_the_other_side_reads_the_messages_that_it_may_see(reply: str) -> None:
    happened, stream, reader = events(reply), EventStream("r1"), EventReader()
    wire = [sent for event in happened for sent in stream.feed(event)] + stream.tool_reply(REPLY_TO_A)
    ended = [event.message for event in happened if isinstance(event, MessageEnded)]
    shown = [message for message in ended if visible_to_user(message) or message.is_call]
    assert [message for event in wire for message in reader.feed(event)] == [*shown, REPLY_TO_A]


@pytest.mark.parametrize("name", ["f", "another"])
def test_a_call_that_its_declaration_does_not_allow_is_an_error_and_no_message(name: str) -> None:
    spec = ToolSpec(name, parameters={"type": "object", "required": ["y"]})
    wire = sent(CALLS, FinishReason.TOOL_CALL, accept=None, tools=DeclaredTools((), {spec.recipient: spec}))
    assert (wire[-1]["type"], wire[-1]["code"], wire[-1]["call_id"]) == ("error", "E-CALL-SCHEMA", "a")
    reader = EventReader()
    assert [message.text for event in wire for message in reader.feed(event)] == ["Plan"]


def test_the_reply_to_a_call_that_is_no_frame_is_shown_and_is_none_either() -> None:
    events, reader = EventStream("r1").tool_reply(replace(REPLY_TO_A, end=End.NONE)), EventReader()
    assert [event["type"] for event in events] == ["tool.reply"]
    assert [message for event in events for message in reader.feed(event)] == []


def test_an_answer_that_is_not_done_is_no_message_on_the_other_side() -> None:
    reader = EventReader()
    wire = sent("<|channel|>final<|message|>Only", FinishReason.LENGTH_OUTPUT, accept=None)
    assert [message for event in wire for message in reader.feed(event)] == []
