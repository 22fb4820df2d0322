"""What one more id of a reply costs its reader: functions that are called. It counts and does not time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import antiphon
from antiphon.conversation import ToolSpec
from antiphon.formats.replies import CompiledDescription, DescriptionParser, Region, ReplyDescription
from antiphon.formats.replies.describe import family_named, whole
from antiphon.tokens import Control, Piece

SOURCE = str(Path(antiphon.__file__).parent)
CALLS = 5
"""At most, for an id that can be part of no mark."""
MANY = 100
TOOL = ToolSpec("write", "", {"type": "object", "properties": {"text": {"type": "string"}}})
CONTROLS = [Control(spelling) for spelling in ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>")]
HERMES: list[Piece] = [Control("<tool_call>"), '\n{"name": "write", "arguments": {"text": "']
XML: list[Piece] = [Control("<tool_call>"), "\n<function=write>\n<parameter=text>\n"]


def parser(family: str) -> DescriptionParser:
    reasoning = Region(open="<think>\n", close="\n</think>\n\n")
    description = whole(ReplyDescription(ends=("<|im_end|>",), reasoning=reasoning), family_named(family))
    return DescriptionParser(CompiledDescription(description, CONTROLS, []), tools=[TOOL])


def calls_for(reader: DescriptionParser, pieces: Sequence[Piece]) -> int:
    """How many functions of ours are called while the pieces come, generators counted as they are resumed.

    Readers of other tests are not collected meanwhile: what ends them would count.
    """
    called, before = 0, sys.getprofile()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal called
        called += event == "call" and frame.f_code.co_filename.startswith(SOURCE)

    gc.disable()
    sys.setprofile(see)
    try:
        for piece in pieces:
            reader.feed((piece,))
    finally:
        sys.setprofile(before)
        gc.enable()
    return called


@pytest.mark.parametrize(
    ("family", "begun", "piece"),
    [
        ("Hermes", [Control("<think>"), "Hm"], " word"),
        ("Hermes", ["Well"], " word"),
        ("Hermes", ['{"answer": "well'], " word"),
        ("Hermes", HERMES, " word"),
        ("XML parameters", ["Well"], " < 4"),
        ("XML parameters", XML, " word"),
        ("XML parameters", XML, "\n    "),
        ("XML parameters", XML, '<b>"'),
    ],
)
def test_an_id_that_was_read_before_and_is_part_of_no_mark_costs_one_call(
    family: str, begun: list[Piece], piece: str
) -> None:
    reader = parser(family)
    reader.feed(begun)
    reader.feed((piece, piece))
    assert calls_for(reader, [piece] * MANY) == MANY


@pytest.mark.parametrize(
    ("family", "begun", "piece"),
    [
        ("Hermes", ["Well"], "\n    "),
        ("Hermes", ["Well"], "{n}"),
        ("Hermes", HERMES, "{n}"),
        ("XML parameters", XML, " {n} < 4"),
        ("XML parameters", XML, "{n}\n    "),
    ],
)
def test_another_id_that_is_part_of_no_mark_costs_few_calls(family: str, begun: list[Piece], piece: str) -> None:
    reader = parser(family)
    reader.feed(begun)
    reader.feed((piece,))
    assert MANY <= calls_for(reader, [piece.format(n=n) for n in range(MANY)]) <= CALLS * MANY
