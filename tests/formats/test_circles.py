"""Readers leave no circles of objects: what they have read is freed with them and waits for no garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import OpenChatML, read, repair, validate
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.tokens import Control, Piece

LONG = "long " * 1_000
HEADER = 'version: "2.2"\n---\n'
TRANSCRIPTS = [
    f"{HEADER}<|start|>user<|message|>{LONG}<|end|>\n",
    f"{HEADER}<|start|>user<|message|>{LONG}",
    f"{HEADER}<|start|>user<|message|>a<<|end|>b<|start|>{LONG}<|end|>",
    f"{HEADER}<|start|>user<|message|><|literal|>{LONG}<|endliteral|><|end|>",
    f"{HEADER}<|start|>user<|message|><|literal|>{LONG}",
    f"{HEADER}<|start|>user<|message|>a<|end|>{LONG}<|start|>user<|message|>b<|end|>",
    f"{HEADER}<|start|>{LONG}<|message|>a<|end|>",
    f"{HEADER}<|start|>user to={LONG}",
    f"{HEADER}<|start|>user<|constrain|>json<|message|>[{LONG}<|end|>",
    f"{HEADER}<|start|>assistant to=functions.f call_id=a<|constrain|>json<|message|>{LONG}<|call|>",
    f"model: {LONG}\n---\n<|start|>user<|message|>a<|end|>",
    f"{HEADER}x: &a {LONG}\n---\n<|start|>user<|message|>a<|end|>",
    f'version: "2.2"\nx: [{LONG}\n---\n<|start|>user<|message|>a<|end|>',
    LONG,
    LONG * 20,
]
START, END = Control("<|im_start|>"), Control("<|im_end|>")
FORMATS: dict[str, Callable[[], Format]] = {
    "openchatml": OpenChatML,
    "harmony": Harmony,
    "chatml": lambda: template_format("chatml", [START, END], replies=QWEN),
}
REPLIES: list[list[Piece]] = [
    [LONG],
    ["<think>", LONG],
    ['<tool_call>{"name": "f", "arguments": {"a": "', LONG],
    [Control("<|start|>"), "assistant", Control("<|channel|>"), "final", Control("<|message|>"), LONG],
    [Control("<|channel|>"), "commentary to=functions.f", Control("<|message|>"), LONG, Control("<|call|>")],
    [Control("<|message|>"), LONG, Control("<|start|>"), LONG, Control("<|message|>"), LONG, Control("<|end|>")],
    [Control("<|unknown|>"), LONG],
]


def circles(work: Callable[[], object]) -> int:
    """How many objects ``work`` leaves that only the garbage collector finds, once it has run before."""
    with suppress(AntiphonError):
        work()
    gc.collect()
    gc.freeze()  # what is there is not looked at again, which takes long
    gc.disable()
    try:
        with suppress(AntiphonError):
            work()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("number", range(len(TRANSCRIPTS)))
@pytest.mark.parametrize("of", [read, repair, lambda text: list(validate(text))], ids=["read", "repair", "validate"])
def test_reading_a_transcript_leaves_no_circles(of: Callable[[str], object], number: int) -> None:
    assert circles(lambda: of(TRANSCRIPTS[number])) == 0


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_parsing_a_reply_leaves_no_circles(name: str, *, strict: bool) -> None:
    format = FORMATS[name]()

    def parse(reply: list[Piece]) -> object:
        parser = format.parser(strict=strict)
        return [parser.feed(reply), parser.close()]

    assert [circles(partial(parse, reply)) for reply in REPLIES] == [0] * len(REPLIES)
