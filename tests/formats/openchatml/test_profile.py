"""What the Harmony profile requires, by a flag or by the header."""

from __future__ import annotations

import pytest

from antiphon.conversation import Conversation, End, Message, Role
from antiphon.formats.openchatml import from_harmony, read, validate, write

BY_HEADER = "version: 2.2\nprofiles:\n  harmony: {enabled: true, require_channels: [analysis, commentary, final]}\n"
ENABLED = "version: 2.2\nprofiles:\n  harmony: {enabled: true}\n"
CALL = "<|start|>assistant to=functions.f call_id=c<|channel|>commentary"
RESULT = "<|start|>tool to=assistant call_id=c name=functions.f<|channel|>commentary<|message|>r<|end|>"
BROKEN = {
    "an unmarked call": (f"{CALL}<|message|>{{}}<|call|>", "E-PARSE-HEADER"),
    "an attribute for the mark": (f"{CALL} content_type=json<|message|>{{}}<|call|>", "E-PARSE-HEADER"),
    "an unmarked plan": ("<|start|>assistant<|channel|>commentary<|message|>Plan.<|end|>\n"
                         "<|start|>assistant<|channel|>final<|message|>Done.<|return|>", "E-PARSE-HEADER"),
    "no channel": ("<|start|>assistant<|message|>Hi<|return|>", "E-PARSE-CHANNEL-MISSING"),
}  # fmt: skip
KEPT = {
    "a marked call": f"{CALL}<|constrain|>json<|message|>{{}}<|call|>\n{RESULT}",
    "code": "<|start|>assistant to=python call_id=c<|channel|>analysis<|message|>print(1)<|call|>",
    "a preamble": "<|start|>assistant intent=preamble<|channel|>commentary<|message|>Plan.<|end|>\n"
    "<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
    "a note": "<|start|>assistant intent=status<|channel|>commentary<|message|>3 of 4<|end|>\n"
    "<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
}


def errors(transcript: str, *, harmony: bool) -> list[str]:
    return [finding.code for finding in validate(transcript, harmony=harmony) if not finding.warning]


@pytest.mark.spec("OCM-125", "OCM-127", "OCM-134")
@pytest.mark.parametrize("name", BROKEN)
def test_the_header_checks_what_the_flag_checks(name: str) -> None:
    frames, code = BROKEN[name]
    assert errors(BY_HEADER + frames, harmony=False) == [code]
    assert errors("version: 2.2\n" + frames, harmony=True) == [code]
    assert errors(ENABLED + frames, harmony=True) == [code]
    assert errors(ENABLED + frames, harmony=False) == []


@pytest.mark.spec("OCM-105", "OCM-139")
def test_a_cut_turn_may_be_sent_back_behind_a_header_and_is_an_error_by_the_flag() -> None:
    cut = BY_HEADER + "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
    assert [(finding.code, finding.warning) for finding in validate(cut)] == [("E-STREAM-TRUNCATED", True)]
    assert errors(cut, harmony=True) == ["E-STREAM-TRUNCATED"]
    answer = "<|start|>assistant<|channel|>final<|message|>Hi<|end|>"
    for header in (BY_HEADER, ENABLED):
        assert list(validate(header + answer)) == []
        assert errors(header + answer, harmony=True) == ["E-STREAM-TRUNCATED"]
    assert list(validate('version: "2.2"\n' + answer)) == []


@pytest.mark.spec("OCM-125", "OCM-127")
@pytest.mark.parametrize("frames", KEPT.values(), ids=KEPT)
def test_what_keeps_the_profile_is_valid(frames: str) -> None:
    assert errors(BY_HEADER + frames, harmony=False) == []
    assert errors("version: 2.2\n" + frames, harmony=True) == []


@pytest.mark.parametrize(
    "last",
    [
        Message(role=Role.ASSISTANT, text="Hm.", channel="analysis"),
        Message(role=Role.ASSISTANT, text="{}", channel="commentary", recipient="functions.f", end=End.CALL),
        Message(role=Role.ASSISTANT, text="{}", channel="final", recipient="functions.f", content_type="json"),
        Message(role=Role.ASSISTANT, text="Plan.", channel="commentary"),
    ],
)
def test_what_comes_from_harmony_requires_no_more_than_it_keeps(last: Message) -> None:
    conversation = Conversation((Message(role=Role.USER, text="q"), last))
    assert len(read(write(from_harmony(conversation).conversation)).messages) == 2
