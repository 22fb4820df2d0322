"""The table of the reader's states: complete, obeyed by the pattern of whole frames, and drawn in the docs."""

from __future__ import annotations

from itertools import product

import pytest

from antiphon.conversation import Role
from antiphon.formats.openchatml.frame_reader import FrameReader
from antiphon.formats.openchatml.machine import REPLY, TRANSCRIPT, Action, FrameState, Input, Table, whole_frame_pattern
from antiphon.formats.openchatml.reply import ReplyReader
from antiphon.formats.openchatml.spelling import CALL, CHANNEL, CONSTRAIN, CONTROLS, END, MESSAGE, RETURN, START
from antiphon.tokens import Control
from kit.openchatml_machine import tables

ORDINARY = {Action.OPEN_HEAD, Action.ADD_TO_HEAD, Action.ADD_SECTION, Action.OPEN_BODY, Action.ADD_TEXT,
            Action.END_FRAME}  # fmt: skip
"""The actions that a frame without escapes, literal blocks and findings needs."""


def walk(table: Table, inputs: tuple[str, ...]) -> tuple[list[Action], FrameState]:
    actions, state = [], FrameState.OUTSIDE
    for one in inputs:
        action, state = table[state][one]
        actions.append(action)
    return actions, state


def is_one_plain_frame(controls: tuple[Control, ...]) -> bool:
    actions, state = walk(TRANSCRIPT, tuple(control.spelling for control in controls))
    return state is FrameState.OUTSIDE and set(actions) <= ORDINARY and actions.count(Action.END_FRAME) == 1


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_the_pattern_of_whole_frames_takes_what_the_table_takes_without_a_special_cell(length: int) -> None:
    pattern = whole_frame_pattern(TRANSCRIPT)
    sequences = [(START, *rest) for rest in product(CONTROLS, repeat=length - 1)]
    taken = [controls for controls in sequences if pattern.fullmatch("".join(map(str, controls)))]
    assert taken == [controls for controls in sequences if is_one_plain_frame(controls)]
    assert len(taken) == (0 if length == 2 else 3 * 2 ** (length - 3))


def test_a_table_with_another_footer_gives_another_pattern() -> None:
    row = {**TRANSCRIPT[FrameState.BODY], CHANNEL.spelling: (Action.END_FRAME, FrameState.OUTSIDE)}
    text = f"{START}user{MESSAGE}x{CHANNEL}"
    assert whole_frame_pattern(TRANSCRIPT).fullmatch(text) is None
    found = whole_frame_pattern({**TRANSCRIPT, FrameState.BODY: row}).fullmatch(text)
    assert found is not None
    assert found.groups() == ("", "user", "x", CHANNEL.spelling)


@pytest.mark.parametrize("table", [TRANSCRIPT, REPLY])
def test_every_state_has_a_cell_for_whatever_may_come(table: Table) -> None:
    always = {Input.TEXT, Input.ESCAPE, Input.UNKNOWN, Input.CLOSE, *(control.spelling for control in CONTROLS)}
    assert all(always <= set(row) for row in table.values())
    assert {then for row in table.values() for _, then in row.values()} == set(table)


@pytest.mark.parametrize(
    ("table", "reader"), [(TRANSCRIPT, FrameReader()), (REPLY, ReplyReader(Role.ASSISTANT, strict=False))]
)
def test_every_action_of_a_table_has_its_method(table: Table, reader: FrameReader) -> None:
    used = {action for row in table.values() for action, _ in row.values()}
    assert used <= set(reader.actions)


def test_no_action_is_unused() -> None:
    assert {action for table in (TRANSCRIPT, REPLY) for row in table.values() for action, _ in row.values()} == set(
        Action
    )


@pytest.mark.parametrize("footer", [END, CALL, RETURN])
@pytest.mark.parametrize("sections", [(), (CHANNEL,), (CHANNEL, CONSTRAIN)])
def test_a_frame_goes_through_head_and_body_back_outside(sections: tuple[Control, ...], footer: Control) -> None:
    controls = (START, *sections, MESSAGE, footer)
    assert is_one_plain_frame(controls)


def test_the_page_draws_a_row_for_each_input_of_a_table() -> None:
    rows = sum(len({key for inputs in table.values() for key in inputs}) for table in (TRANSCRIPT, REPLY))
    assert sum(line.startswith("| ") for line in tables().splitlines()) == rows + 2
