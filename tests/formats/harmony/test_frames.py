"""No header is misread: its words say what they are, wherever they stand, and whatever is read is written again."""

from __future__ import annotations

import json
from itertools import permutations, product
from typing import Any

import pytest

from antiphon.conversation import Incident, Message, MessageEnded, MessageStarted
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.generation.reader.channels import with_channels
from antiphon.tokens import ControlScanner, decode
from kit.api import Got, post_in_process
from kit.damaged_replies import WIRES
from kit.harmony_frames import EVERY, TOKENIZER, ids_of, misread, mistold, served, told

OFFERED = ("functions.probe", "functions.get_weather", "python")


def read(reply: str, *, shown: bool = False) -> list[Message]:
    """The messages of a reply; ``shown``: on the channels that they are shown on."""
    scanner, parser = ControlScanner(CONTROLS), Harmony().parser(tools=OFFERED)
    events = [*parser.feed([*scanner.feed(reply), *scanner.close()]), *parser.close()]
    return [e.message for e in (with_channels(events, Harmony()) if shown else events) if isinstance(e, MessageEnded)]


NAMES = ("to=functions.probe", "to=probe", "to:functions.probe", "to= probe", "to =probe", "functions.probe", "probe")
WORDS = ("", "commentary", "json")
CALLS = {
    *(f"<|channel|>{' '.join(filter(None, order))}" for name in NAMES for order in permutations((name, *WORDS))),
    *(f"<|channel|>{channel}{gap}<|constrain|>{gap}{name}{type}"
      for channel, gap, name, type in product(("", "commentary"), ("", " "), NAMES, ("", " json"))),
    *(f"<|start|>{name}{more}" for name in ("functions.probe", "probe")
      for more in ("", "<|channel|>commentary", "<|channel|>commentary json", " <|constrain|>json", "<|channel|>")),
    *(f"<|channel|>{first}<|channel|>{second}" for first, second in permutations((NAMES[0], "commentary", "probe"), 2)
      if {first, second} != {"commentary"}),
    "<|channel|>\n to=functions.probe\n", "<|channel|>\u200bto=functions.probe", "<|channel|>json to=probe",
    "<|channel|>analysis<|channel|>commentary to=functions.probe", " to=functions.probe<|channel|>json",
    *(f"<|channel|>commentary to={name}{type}"
      for name in ('"functions.probe"', "`probe`", "<functions.probe>", "'probe'", "@functions.probe",
                   "functions/probe", "functions:probe", "functions.probe;", "functions.probe,json",
                   "functions.functions.probe", "Functions.Probe", "PROBE", "functions probe", "functions\nto=probe")
      for type in ("", " json", "<|constrain|>json")),
    *(f"{before}{mark}=functions.probe{behind}" for mark in ("TO", "recipient", "\u0442o")
      for before, behind in (("<|channel|>", " commentary json"), ("<|channel|>commentary<|constrain|>", ""),
                             ("<|start|>", "<|channel|>commentary"))),
    *(f"<|channel|>{glued}=functions.probe" for glued in ("commentaryto", "commentary.to", "commentary tool", "tool")),
    "<|start|>@probe", '<|channel|>"functions.probe" to=all', "<|channel|>to= probe??",
    "<|channel|>to=functions.probe(", "<|channel|>assistant to=functions.probe", "<|channel|>to=to=functions.probe",
}  # fmt: skip


@pytest.mark.parametrize("head", sorted(CALLS))
def test_a_header_that_names_a_tool_in_any_place_is_a_call_of_it(head: str) -> None:
    (call,) = read(f'{head}<|message|>{{"a": "x"}}<|call|>')
    assert (call.is_call, call.recipient, call.text) == (True, "functions.probe", '{"a": "x"}')
    assert call.channel in (None, "analysis", "commentary")
    assert call.content_type in (None, "json")


UNMARKED = (
    *("comentary to=functions.probe json", "commentary? to=probe", "commentary commentary to=functions.probe"),
    *("commentary to=functions.probe JSON ", "commentary to=functions.probe application/json\n"),
)


@pytest.mark.parametrize("head", UNMARKED)
@pytest.mark.parametrize("end", ["", "<|call|>"])
def test_words_before_a_call_whose_header_does_not_end_are_no_part_of_it(head: str, end: str) -> None:
    (call,) = read(f'<|channel|>{head}{{"a": "x"}}{end}', shown=True)
    assert (call.recipient, call.text.strip()) == ("functions.probe", '{"a": "x"}')


def test_what_is_run_is_neither_an_answer_nor_a_function_s_arguments() -> None:
    (answer,) = read("<|channel|>final code<|message|>It is said.<|return|>")
    assert (answer.channel, answer.recipient) == ("final", None)
    (call,) = read("<|start|>functions.probe<|channel|>commentary code<|message|>{}<|call|>")
    assert call.recipient == "functions.probe"
    for head in ("<|channel|>commentary to=python ", "<|start|>finals<|channel|><|constrain|>code<|message|>"):
        (run,) = read(f"{head}x = {{1}}<|call|>")
        assert (run.recipient, run.text) == ("python", "x = {1}")


ANSWERS = (
    *(
        f"<|channel|>{channel} to={whom}"
        for channel in ("commentary", "final")
        for whom in ("user", "all", "assistant")
    ),
    *(f"<|channel|>{one}<|channel|>final" for one in ("analysis", "commentary", "", "final", "assistant", "??")),
    *("<|channel|>final<|channel|>analysis", "<|channel|>analysis final", "<|channel|>assistant final"),
    *("<|channel|><|constrain|>final", "<|channel|>assistant", "<|channel|>json", "<|channel|>to="),
    *("<|start|>assistant.<|channel|>final", "<|start|>assistant:<|channel|>final", '<|start|>"<|channel|>final'),
)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("head", ANSWERS)
async def test_a_header_that_names_no_tool_is_an_answer_on_every_wire(head: str, wire: str) -> None:
    whole, streamed = await told(f"{head}<|message|>It is said.<|return|>", wire)
    assert whole.content == streamed.content == "It is said."
    assert whole.calls == streamed.calls == []


HEADS = ("<|channel|> to=functions.probe json", "<|channel|>probe", "<|start|>functions.probe<|channel|>commentary")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("head", HEADS)
async def test_a_call_by_any_header_is_a_call_on_every_wire(head: str, wire: str) -> None:
    whole, streamed = await told(f'{head}<|message|>{{"a": "x"}}<|call|>', wire)
    assert whole.told == streamed.told == ("", [("probe", '{"a": "x"}')], WIRES[wire].called)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("head", ["commentary to=functions.geo.probe", "commentary to=geo.probe", "geo.probe"])
async def test_a_function_whose_name_has_dots_is_offered_called_and_answered_on_every_wire(
    head: str, wire: str
) -> None:
    app, engine, reply = served()
    client = WIRES[wire]
    reply[:] = ids_of(f'<|channel|>{head}<|message|>{{"a": "x"}}<|call|>')

    async def asked(history: list[Any]) -> Got:
        fields = json.loads(json.dumps(client.request(history)).replace('"probe"', '"geo.probe"'))
        return await post_in_process(app, client.path, **fields, stream=False)

    answer = client.whole(await asked([]))
    assert answer.calls == [("geo.probe", '{"a": "x"}')]
    assert (await asked(client.history(answer))).status == 200
    prompt = decode(TOKENIZER, list(engine.requests[-1][0]))
    assert "type geo.probe = (_: {" in prompt
    assert '{"a": "x"}<|call|><|start|>functions.geo.probe to=assistant' in prompt


def test_of_two_channels_the_reply_says_later_which_it_was() -> None:
    thought = "<|channel|>analysis<|channel|>final<|message|>Hm.<|end|>"
    answer = "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    assert [(m.channel, m.text) for m in read(thought + answer, shown=True)] == [("analysis", "Hm."), ("final", "Yes.")]
    assert [(m.channel, m.text) for m in read(thought, shown=True)] == [("final", "Hm.")]


def test_commentary_to_nobody_is_an_answer_only_where_the_reply_has_no_other() -> None:
    thought = "<|channel|>commentary to=assistant<|message|>Hm.<|end|>"
    answer = "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    assert [m.channel for m in read(thought + answer, shown=True)] == ["analysis", "final"]
    assert [m.channel for m in read(thought, shown=True)] == ["final"]
    announced = read(thought.replace("assistant", "user") + answer, shown=True)
    assert [(m.channel, m.is_preamble) for m in announced] == [("commentary", True), ("final", False)]


def test_a_tool_s_message_that_no_call_ends_is_another_role_s() -> None:
    assert read("<|start|>functions.probe<|channel|>commentary<|message|>42<|end|>") == []


def test_a_long_name_in_a_short_header_is_read_again_in_the_one_that_is_written() -> None:
    (call,) = read(f"<|channel|>to={'x' * 245}<|message|>{{}}<|call|>")
    parser = Harmony().parser(reply_as=None)
    again = parser.feed(list(Harmony().messages.frame(call)))
    assert [type(event) for event in again if isinstance(event, Incident)] == []
    assert [e.message.recipient for e in again if isinstance(e, MessageStarted)] == ["x" * 245]


@pytest.mark.parametrize("noise", ["(probe?)", "probe.", "functions.probe? functions.get_weather?"])
def test_a_name_beside_marks_that_is_no_recipient_is_noise(noise: str) -> None:
    (thought,) = read(f"<|channel|>analysis {noise}<|message|>Which?<|end|>")
    assert (thought.recipient, thought.channel, thought.text) == (None, "analysis", "Which?")


@pytest.mark.parametrize("tens", range(20))
def test_whatever_is_read_of_random_frames_is_written_and_read_again_as_itself(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        assert not misread(seed)


@pytest.mark.parametrize("wire", EVERY)
async def test_random_frames_are_told_on_every_wire_and_taken_back(wire: str) -> None:
    for seed in range(10):
        assert not await mistold(seed, wire)
