"""What a model writes wrongly of a call, as each wire tells it: one call, and nothing of it in the content."""

from __future__ import annotations

import random
from itertools import cycle, islice

import pytest

from kit.api import post_in_process
from kit.damaged_replies import ALL, FORMATS, WIRES, Draw, faults, speaker

BROKEN = """{"b": ["call0word1", 'call0word2']}"""
REPLIES = {
    "hermes": f'<tool_call>\n{{"name": "probe", "arguments": {BROKEN}}}\n</tool_call><|e|>',
    "mistral list": f'[TOOL_CALLS][{{"name": "probe", "arguments": {BROKEN}, "id": "abcdefgh0"}}]</s>',
    "bare object": f'{{"name": "probe", "parameters": {BROKEN}}}<|e|>',
    "harmony": f"<|channel|>commentary to=functions.probe <|constrain|>json<|message|>{BROKEN}<|call|>",
    "openchatml": f" to=functions.probe call_id=a<|channel|>commentary<|message|>{BROKEN}<|call|>",
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("format", REPLIES)
async def test_a_call_whose_arguments_break_is_one_call_on_every_wire(format: str, wire: str) -> None:
    model, client = speaker(format), WIRES[wire]
    model.reply[:] = model.ids(REPLIES[format])
    got = await post_in_process(model.app, client.path, **client.request([]), stream=False)
    flow = await post_in_process(model.app, client.path, **client.request([]), stream=True)
    assert got.status == flow.status == 200, (got.body, flow.body)
    assert client.whole(got).told == ("", [("probe", BROKEN)], client.called)
    assert client.streamed(flow).told == client.whole(got).told
    code = "E-CALL-SCHEMA" if format == "openchatml" else "malformed_arguments"
    assert got.headers["x-antiphon-incidents"] == code


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_that_the_model_breaks_off_is_a_call(wire: str) -> None:
    model, client = speaker("hermes"), WIRES[wire]
    model.reply[:] = model.ids('<tool_call>{"name": "probe", "arguments": {"b": ["x", ')
    got = await post_in_process(model.app, client.path, **client.request([]), stream=False)
    assert client.whole(got).told == ("", [("probe", '{"b": ["x", ')], client.called)
    assert got.headers["x-antiphon-incidents"] == "malformed_arguments"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("behind", ['{\\"k\\": 1}}"}', "{'k': 1}}", "{k: 1}}", "{1}}", "{{}}}"])
async def test_a_brace_behind_arguments_that_ended_early_begins_no_other_call(behind: str, wire: str) -> None:
    format = "an object within an object, its arguments as text"
    model, client = speaker(format), WIRES[wire]
    whole = '[JOB]{"type": "function", "function": {"name": "probe", "arguments": "{\\"z\\": 1}"}}[/JOB]'
    cut = f'[JOB]{{"type": "function", "function": {{"name": "probe", "arguments": "{{\\"c\\:" {behind}}}[/JOB]'
    model.reply[:] = model.ids(f"{cut}\n{whole}")
    got = await post_in_process(model.app, client.path, **client.request([]), stream=False)
    flow = await post_in_process(model.app, client.path, **client.request([]), stream=True)
    told = client.whole(got).told
    assert [text.strip() for text in (told[0], client.streamed(flow).told[0])] == ["", ""]
    assert told[1][-1] == ("probe", '{"z": 1}')
    assert told[1] == client.streamed(flow).told[1]


@pytest.mark.parametrize(
    ("format", "reply", "calls"),
    [
        ("bare object", '{"name": "probe", "parameters": {"k": }"a"]]}, "z": 1}}', ['{"k": }']),
        ("the way Python calls", "```run\nprobe(k=]1, 2], z=3)\n```", ['{"k": }']),
        ("the way Python calls", "```run\nprobe(k=)'a': 2})\nprobe(k=1)\n```", ['{"k": }', '{"k": 1}']),
        ("the way Python calls", "```run\nprobe(k=)\nprobe(k=1)\n```", ['{"k": }', '{"k": 1}']),
        ("strings between quotes of the template's", "<|go|>probe{k:<|q|<|e|>", ['{"k": <|q|}']),
        ("strings between quotes of the template's", "<|go|>probe{z:1,k:<<|e|>", ['{"z": 1, "k": <}']),
    ],
)
async def test_a_value_that_does_not_begin_as_one_spills_nothing_and_hides_no_call(
    format: str, reply: str, calls: list[str]
) -> None:
    model, client = speaker(format), WIRES["chat"]
    model.reply[:] = model.ids(reply)
    got = await post_in_process(model.app, client.path, **client.request([]), stream=False)
    assert client.whole(got).told == ("", [("probe", arguments) for arguments in calls], client.called)


@pytest.mark.parametrize("damage", ALL)
async def test_a_damaged_reply_is_told_whole_and_taken_back(damage: str) -> None:
    """Each format has each damage, and each wire in turn; `make fuzz-replies` draws thousands."""
    chance, turn = random.Random(damage), ALL.index(damage)
    for format, wire in zip(FORMATS, islice(cycle(WIRES), turn, None), strict=False):
        draw = Draw(format, wire, damage, chance.getrandbits(32))
        assert not await faults(draw), draw
