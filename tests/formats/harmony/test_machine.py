"""The table of states and controls: complete, without dead entries, and what the parser does."""

from __future__ import annotations

import pytest

from antiphon.conversation import Incident, MessageEnded, MessageStarted, Role
from antiphon.formats.harmony import HarmonyParser
from antiphon.formats.harmony.controls import CALL, CHANNEL, CONTROLS, END, ENDOFTEXT, MESSAGE, START
from antiphon.formats.harmony.machine import TRANSITIONS, UNEXPECTED, HarmonyAction, HarmonyState
from antiphon.tokens import Control, Piece

RESERVED = Control("<|reserved_200013|>")
REACHED: dict[HarmonyState, list[Piece]] = {
    HarmonyState.BETWEEN: [CHANNEL, "final", MESSAGE, "x", END],
    HarmonyState.HEADER: [CHANNEL, "final"],
    HarmonyState.CONTENT: [CHANNEL, "final", MESSAGE, "x"],
    HarmonyState.UNKNOWN_ROLE: [CHANNEL, "final", MESSAGE, "x", END, START, "bash", MESSAGE, "ls"],
    HarmonyState.OVER: [CHANNEL, "final", MESSAGE, "x", END, START, "user", MESSAGE, "hello"],
}
"""What brings the parser of a reply into each state."""


def test_each_action_is_in_the_table_and_each_state_has_its_incident() -> None:
    assert set(TRANSITIONS.values()) == set(HarmonyAction)
    assert set(UNEXPECTED) == set(HarmonyState)


@pytest.mark.parametrize("state", HarmonyState)
@pytest.mark.parametrize("control", [*CONTROLS, ENDOFTEXT, RESERVED], ids=str)
def test_a_control_without_an_entry_is_the_incident_of_the_state(state: HarmonyState, control: Control) -> None:
    parser = HarmonyParser(Role.ASSISTANT)
    parser.feed(REACHED[state])
    incidents = [(e.code, e.text) for e in parser.feed([control]) if isinstance(e, Incident)]
    code = UNEXPECTED[state]
    expected = [] if code is None else [(code, control.spelling)]
    if (state, control) in TRANSITIONS:
        assert code is None or (code, control.spelling) not in incidents
    else:
        assert incidents == expected


@pytest.mark.parametrize("control", [*CONTROLS, ENDOFTEXT], ids=str)
def test_a_message_ends_where_the_table_ends_it(control: Control) -> None:
    parser = HarmonyParser(Role.ASSISTANT)
    parser.feed(REACHED[HarmonyState.CONTENT])
    ends = {HarmonyAction.END_MESSAGE, HarmonyAction.END_FIRST}
    ended = any(isinstance(event, MessageEnded) for event in parser.feed([control]))
    assert ended is (TRANSITIONS.get((HarmonyState.CONTENT, control)) in ends)
    assert parser.in_content is not ended


@pytest.mark.parametrize("control", [*CONTROLS, ENDOFTEXT], ids=str)
def test_a_message_of_an_unknown_role_is_a_call_if_it_ends_as_one_and_else_ends_the_reply(control: Control) -> None:
    parser = HarmonyParser(Role.ASSISTANT)
    parser.feed(REACHED[HarmonyState.UNKNOWN_ROLE])
    events = [*parser.feed([control]), *parser.close()]
    (started,) = [e.message.recipient for e in events if isinstance(e, MessageStarted)] or [None]
    foreign = [e.text for e in events if isinstance(e, Incident) and e.code == "truncated-at-foreign-role"]
    assert (started, foreign) == (("bash", []) if control == CALL else (None, ["bashls"]))


@pytest.mark.parametrize("dropped", [RESERVED, *CONTROLS], ids=str)
def test_behind_another_role_text_is_one_incident_and_controls_are_none(dropped: Control) -> None:
    parser = HarmonyParser(Role.ASSISTANT)
    events = [*parser.feed([*REACHED[HarmonyState.OVER], dropped, " there"]), *parser.close()]
    assert [(e.code, e.text) for e in events if isinstance(e, Incident)] == [
        ("truncated-at-foreign-role", "userhello there")
    ]
