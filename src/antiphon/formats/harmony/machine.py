"""Harmony's reply parser as a table: what each control does in each state.

`HarmonyParser` looks a control up here and performs the action. A control that has no entry for the state is reported
as the incident that `UNEXPECTED` gives for that state, and otherwise skipped. docs/harmony.md shows the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from antiphon.tokens import Control

from .controls import CALL, CHANNEL, CONSTRAIN, END, ENDOFTEXT, MESSAGE, RETURN, START


class HarmonyState(StrEnum):
    """Where the parser is. The value is the state's name in the documentation."""

    BETWEEN = "between messages"
    """No message is open. Text may be a header without its start, an answer without any header, or stray."""
    HEADER = "header"
    """After ``<|start|>``, or at the start of a reply whose prompt ends with ``<|start|>assistant``."""
    CONTENT = "content"
    """In the content of a message whose fields are known."""
    UNKNOWN_ROLE = "content, unknown role"
    """In the content of a message whose header names no known role: only its end decides whether it is a tool call."""
    OVER = "over"
    """A message of another role began, which ends the reply: all later text goes into one incident."""


class HarmonyAction(StrEnum):
    """What a control does. The value is its description in the documentation, with the incidents that it reports."""

    OPEN_HEADER = "a header begins; buffered text is reported (`stray-text`, `stray-whitespace`)"
    RESTART_HEADER = "the open header ends as if by `<|end|>`, or is dropped if empty (`dup-start`); a new one begins"
    ASSUME_HEADER = "`missing-start`: the buffered text begins a header, and the control is read again in it"
    OPEN_SECTION = "the next section of the header begins"
    OPEN_CONTENT = "the header is complete and its content begins; a header of another role ends the reply"
    SKIP_MESSAGE = "reported (`dup-message`, after text `stray-message`) and skipped"
    END_FIRST = "`missing-end`: the message ends as if by `<|end|>`, and the control is read again"
    END_MESSAGE = "the message ends"
    END_HEADER = "a header without `<|message|>` (`missing-message`): the part of it that is no field is the content"
    STRAY_END = (
        "buffered text is read as the answer if there is none yet; else it and the end are reported (`stray-stop`)"
    )
    DECIDE_ROLE = (
        "by `<|call|>` the unknown role is the recipient of a call; by any other end it is another role's message, or "
        "text if it has no `<|message|>`"
    )


TRANSITIONS: Mapping[tuple[HarmonyState, Control], HarmonyAction] = {
    (HarmonyState.BETWEEN, START): HarmonyAction.OPEN_HEADER,
    (HarmonyState.BETWEEN, CHANNEL): HarmonyAction.ASSUME_HEADER,
    (HarmonyState.BETWEEN, CONSTRAIN): HarmonyAction.ASSUME_HEADER,
    (HarmonyState.BETWEEN, MESSAGE): HarmonyAction.ASSUME_HEADER,
    (HarmonyState.BETWEEN, END): HarmonyAction.STRAY_END,
    (HarmonyState.BETWEEN, CALL): HarmonyAction.STRAY_END,
    (HarmonyState.BETWEEN, RETURN): HarmonyAction.STRAY_END,
    (HarmonyState.BETWEEN, ENDOFTEXT): HarmonyAction.STRAY_END,
    (HarmonyState.HEADER, START): HarmonyAction.RESTART_HEADER,
    (HarmonyState.HEADER, CHANNEL): HarmonyAction.OPEN_SECTION,
    (HarmonyState.HEADER, CONSTRAIN): HarmonyAction.OPEN_SECTION,
    (HarmonyState.HEADER, MESSAGE): HarmonyAction.OPEN_CONTENT,
    (HarmonyState.HEADER, END): HarmonyAction.END_HEADER,
    (HarmonyState.HEADER, CALL): HarmonyAction.END_HEADER,
    (HarmonyState.HEADER, RETURN): HarmonyAction.END_HEADER,
    (HarmonyState.CONTENT, START): HarmonyAction.END_FIRST,
    (HarmonyState.CONTENT, CHANNEL): HarmonyAction.END_FIRST,
    (HarmonyState.CONTENT, MESSAGE): HarmonyAction.SKIP_MESSAGE,
    (HarmonyState.CONTENT, END): HarmonyAction.END_MESSAGE,
    (HarmonyState.CONTENT, CALL): HarmonyAction.END_MESSAGE,
    (HarmonyState.CONTENT, RETURN): HarmonyAction.END_MESSAGE,
    (HarmonyState.CONTENT, ENDOFTEXT): HarmonyAction.END_MESSAGE,
    (HarmonyState.UNKNOWN_ROLE, START): HarmonyAction.END_FIRST,
    (HarmonyState.UNKNOWN_ROLE, CHANNEL): HarmonyAction.END_FIRST,
    (HarmonyState.UNKNOWN_ROLE, MESSAGE): HarmonyAction.SKIP_MESSAGE,
    (HarmonyState.UNKNOWN_ROLE, END): HarmonyAction.DECIDE_ROLE,
    (HarmonyState.UNKNOWN_ROLE, CALL): HarmonyAction.DECIDE_ROLE,
    (HarmonyState.UNKNOWN_ROLE, RETURN): HarmonyAction.DECIDE_ROLE,
    (HarmonyState.UNKNOWN_ROLE, ENDOFTEXT): HarmonyAction.DECIDE_ROLE,
}

UNEXPECTED: Mapping[HarmonyState, str | None] = {
    HarmonyState.BETWEEN: "stray-control",
    HarmonyState.HEADER: "header-noise",
    HarmonyState.CONTENT: "stray-control",
    HarmonyState.UNKNOWN_ROLE: "stray-control",
    HarmonyState.OVER: None,
}
"""The incident of a control that has no entry for the state; its text is the control. None: no incident."""
