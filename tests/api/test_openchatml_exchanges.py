"""What is streamed is the whole answer, frame by frame; `tests/fuzz/openchatml_exchanges.py` is the long run."""

from __future__ import annotations

from itertools import cycle

import pytest

from fuzz.openchatml_exchanges import TRANSCRIPTS, Exchange, answered, faults_of, run


@pytest.mark.spec("OCM-19", "OCM-54", "OCM-100", "OCM-105", "OCM-168")
@pytest.mark.parametrize("seed", [1])
async def test_hostile_exchanges_are_the_same_whole_and_streamed_and_valid(seed: int) -> None:
    ended, faults = await run(len(TRANSCRIPTS), seed)
    assert faults == []
    assert ended["answered"] > len(TRANSCRIPTS) / 2


FINAL, CALL = "<|channel|>final<|message|>", " to=functions.f call_id=a<|channel|>final<|message|>{}<|call|>"
NEXT = "<|end|><|start|>assistant"


REPLIES = (
    f"{FINAL}Let me look.{NEXT}{CALL}",
    f"{FINAL}One.{NEXT}{FINAL}Two.<|return|>",
    f"{FINAL}One.<|return|>",
    f"Bare.{NEXT}{FINAL}Two.<|return|>",
    f" name=Ann{FINAL}Named.{NEXT} name=Bob<|message|>No channel.",
    f"{FINAL}Said.{NEXT}<|channel|>analysis<|message|>SECRET<|end|>",
    " intent=preamble<|channel|>commentary<|message|>Cut",
    f"{CALL}{NEXT.removeprefix('<|end|>')}{CALL}",
)


@pytest.mark.parametrize(("transcript", "reply"), [*zip(TRANSCRIPTS[::5], cycle(REPLIES), strict=False)])
async def test_a_stream_has_every_frame_of_the_whole_answer(transcript: str, reply: str) -> None:
    assert (await faults_of(Exchange(transcript, "openchatml", (reply, FINAL + "Done.", FINAL))))[1] == []


@pytest.mark.parametrize(
    ("reply", "warning"),
    [
        (f" name={'a' * 5000}{FINAL}Hi.<|return|>", "E-PARSE-HEADER at 0: '<|start|>assistant name=aaa"),
        ("<|channel|>final name=Ann<|message|>Hi.<|return|>", "'assistant<|channel|>final name=Ann'"),
        (f" intent=loud{FINAL}Hi.<|return|>", "messages[1].intent: 'loud' becomes None"),
        (f"{FINAL}Hi.{NEXT}<|channel|>thinking<|message|>SECRET<|return|>", "channel-hidden at 31: 'thinking'"),
        (f"{FINAL}A <|start_reason|>thought.<|return|>", "reflection markers are left out"),
        (f"{FINAL}Hi.<|end|><|start|>user<|message|>And?<|end|>", "'<|start|>user<|message|>'"),
        (CALL, "messages[1].channel: 'final' becomes 'commentary'"),
    ],
)
async def test_whatever_of_a_reply_was_mended_is_a_warning(reply: str, warning: str) -> None:
    got = await answered(Exchange(TRANSCRIPTS[0], "openchatml", (reply,) * 3), stream=False, chunk=1)
    assert got.status == 200
    assert warning in got.headers["x-antiphon-warning"]
