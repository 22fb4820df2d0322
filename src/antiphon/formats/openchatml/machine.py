"""The reader's state machine: what each control or text does in each state, in transcripts and in a model's replies.

A cell names an action and the state that follows. `FrameReader` and `ReplyReader` have a method for each action;
`whole_frame_pattern`, made of it, matches the frames that pass through it without any special cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum, unique

from antiphon.tokens import Control

from .spelling import BLANK, CALL, CHANNEL, CONSTRAIN, CONTROLS, END, ENDLITERAL, LITERAL, MESSAGE, RETURN, START


@unique
class FrameState(StrEnum):
    """The place of the reader in a transcript. ``ENDED``: behind the end of a reply, whose text is read no further."""

    OUTSIDE = "outside"
    HEAD = "head"
    BODY = "body"
    LITERAL = "literal block"
    ENDED = "ended"


@unique
class Input(StrEnum):
    """Inputs beside the nine controls, which are named by their spelling."""

    TEXT = "text"
    ESCAPE = "escaped control"
    UNKNOWN = "another control token"
    OVERLONG = "text beyond a head's limit"
    UNMARKED = "text that is no head"
    OTHER_AUTHOR = "<|message|> of another author"
    CLOSE = "end of the input"


@unique
class Action(StrEnum):
    """Actions; each has a method of its name in the reader."""

    SKIP_TEXT = "skip, unless blank"
    SKIP_CONTROL = "skip"
    SKIP_HEAD = "skip the head"
    REPORT_SKIPPED = "report what was skipped"
    OPEN_HEAD = "open a head"
    ADD_TO_HEAD = "add to the head"
    ADD_SECTION = "open a section of the head"
    DROP_HEAD = "report and drop the head"
    REOPEN_HEAD = "report and drop the head, open another"
    TRUNCATE_HEAD = "report a truncated head"
    OPEN_BODY = "open the body"
    ADD_TEXT = "add to the body"
    ADD_ESCAPED = "add to the body without the escape"
    ADD_STRAY = "report, add to the body"
    OPEN_LITERAL = "open a literal block"
    ADD_LITERAL = "add to the body as it is"
    CLOSE_LITERAL = "close the literal block"
    END_FRAME = "end the frame"
    TRUNCATE_BODY = "report a truncated message, end the frame"
    TRUNCATE_LITERAL = "report a truncated literal block, end the frame"
    # in replies only
    REPORT_STRAY = "report"
    IMPLY_HEAD = "report, open the speaker's head, read on"
    INSERT_MESSAGE = "report, read on as <|message|> and text"
    LEAVE_HEAD = "report a head without a body"
    SKIP_FRAME = "skip the frame"
    IMPLY_END = "report, end the frame, read on"
    STOP_FRAME = "end the frame as its head says"
    END_TURN = "end the turn"


Table = Mapping[FrameState, Mapping[str, tuple[Action, FrameState]]]
"""FrameState, then a control's spelling or an `Input`, to the action and the state that follows."""
Line = tuple[FrameState, Iterable[Control | Input], Action, FrameState]


def _table(*lines: Line, base: Table | None = None) -> Table:
    """The lines as a table, laid over ``base``; a later line replaces the cells of an earlier one."""
    table = {state: dict(row) for state, row in (base or {}).items()}
    for state, inputs, action, then in lines:
        row = table.setdefault(state, {})
        row.update((one.spelling if isinstance(one, Control) else one, (action, then)) for one in inputs)
    return table


TRANSCRIPT = _table(
    (FrameState.OUTSIDE, [Input.TEXT, Input.ESCAPE, Input.UNKNOWN], Action.SKIP_TEXT, FrameState.OUTSIDE),
    (FrameState.OUTSIDE, CONTROLS, Action.SKIP_CONTROL, FrameState.OUTSIDE),
    (FrameState.OUTSIDE, [START], Action.OPEN_HEAD, FrameState.HEAD),
    (FrameState.OUTSIDE, [Input.CLOSE], Action.REPORT_SKIPPED, FrameState.OUTSIDE),
    #
    (FrameState.HEAD, [Input.TEXT, Input.ESCAPE, Input.UNKNOWN], Action.ADD_TO_HEAD, FrameState.HEAD),
    (FrameState.HEAD, [Input.OVERLONG], Action.SKIP_HEAD, FrameState.OUTSIDE),
    (FrameState.HEAD, CONTROLS, Action.DROP_HEAD, FrameState.OUTSIDE),
    (FrameState.HEAD, [START], Action.REOPEN_HEAD, FrameState.HEAD),
    (FrameState.HEAD, [CHANNEL, CONSTRAIN], Action.ADD_SECTION, FrameState.HEAD),
    (FrameState.HEAD, [MESSAGE], Action.OPEN_BODY, FrameState.BODY),
    (FrameState.HEAD, [Input.CLOSE], Action.TRUNCATE_HEAD, FrameState.OUTSIDE),
    #
    (FrameState.BODY, [Input.TEXT, Input.UNKNOWN], Action.ADD_TEXT, FrameState.BODY),
    (FrameState.BODY, [Input.ESCAPE], Action.ADD_ESCAPED, FrameState.BODY),
    (FrameState.BODY, CONTROLS, Action.ADD_STRAY, FrameState.BODY),
    (FrameState.BODY, [LITERAL], Action.OPEN_LITERAL, FrameState.LITERAL),
    (FrameState.BODY, [END, CALL, RETURN], Action.END_FRAME, FrameState.OUTSIDE),
    (FrameState.BODY, [Input.CLOSE], Action.TRUNCATE_BODY, FrameState.OUTSIDE),
    #
    (FrameState.LITERAL, [*CONTROLS, Input.TEXT, Input.ESCAPE, Input.UNKNOWN], Action.ADD_LITERAL, FrameState.LITERAL),
    (FrameState.LITERAL, [ENDLITERAL], Action.CLOSE_LITERAL, FrameState.BODY),
    (FrameState.LITERAL, [Input.CLOSE], Action.TRUNCATE_LITERAL, FrameState.OUTSIDE),
)
"""Transcripts (§3, §6; A-O04, A-O22 … A-O25)."""

REPLY = _table(
    (FrameState.OUTSIDE, CONTROLS, Action.REPORT_STRAY, FrameState.OUTSIDE),
    (FrameState.OUTSIDE, [START], Action.OPEN_HEAD, FrameState.HEAD),
    (FrameState.OUTSIDE, [CHANNEL, MESSAGE], Action.IMPLY_HEAD, FrameState.HEAD),
    (FrameState.OUTSIDE, [Input.UNKNOWN], Action.END_TURN, FrameState.ENDED),
    #
    (FrameState.HEAD, [Input.UNMARKED], Action.INSERT_MESSAGE, FrameState.HEAD),
    (FrameState.HEAD, [Input.OTHER_AUTHOR], Action.SKIP_FRAME, FrameState.ENDED),
    (FrameState.HEAD, [END], Action.LEAVE_HEAD, FrameState.OUTSIDE),
    (FrameState.HEAD, [CALL, RETURN, Input.UNKNOWN], Action.LEAVE_HEAD, FrameState.ENDED),
    #
    (FrameState.BODY, CONTROLS, Action.REPORT_STRAY, FrameState.BODY),
    (FrameState.BODY, [START, CHANNEL], Action.IMPLY_END, FrameState.OUTSIDE),
    (FrameState.BODY, [LITERAL], Action.OPEN_LITERAL, FrameState.LITERAL),
    (FrameState.BODY, [END], Action.END_FRAME, FrameState.OUTSIDE),
    (FrameState.BODY, [CALL, RETURN], Action.END_FRAME, FrameState.ENDED),
    (FrameState.BODY, [Input.UNKNOWN], Action.STOP_FRAME, FrameState.ENDED),
    (FrameState.LITERAL, [Input.UNKNOWN], Action.STOP_FRAME, FrameState.ENDED),
    #
    (FrameState.ENDED, [Input.TEXT, Input.ESCAPE], Action.SKIP_TEXT, FrameState.ENDED),
    (FrameState.ENDED, CONTROLS, Action.SKIP_CONTROL, FrameState.ENDED),
    (FrameState.ENDED, [Input.UNKNOWN], Action.END_TURN, FrameState.ENDED),
    (FrameState.ENDED, [Input.CLOSE], Action.REPORT_SKIPPED, FrameState.ENDED),
    base=TRANSCRIPT,
)
"""A model's replies: every control acts wherever it stands, and text without ``<|message|>`` is the answer's."""


def whole_frame_pattern(table: Table) -> re.Pattern[str]:
    """Blanks and a frame whose body has neither escapes nor controls, in groups: blanks, head, body, footer.

    The table says which controls open a head, a section and a body, and which end the frame. Sections and ``<`` in a
    body are few, since each costs the matcher memory.
    """

    def controls(state: FrameState, action: Action) -> str:
        found = [re.escape(key) for key, (does, _) in table[state].items() if does is action]
        return f"(?:{'|'.join(found)})"

    start, section = controls(FrameState.OUTSIDE, Action.OPEN_HEAD), controls(FrameState.HEAD, Action.ADD_SECTION)
    message, footer = controls(FrameState.HEAD, Action.OPEN_BODY), controls(FrameState.BODY, Action.END_FRAME)
    # Atomic groups: the first releases of Python 3.11 never match a possessive group inside one that is captured.
    head = rf"(?>[^<]*+(?:{section}[^<]*+){{0,8}})"
    body = r"(?>[^<]*+(?:<(?!\|)[^<]*+){0,64})"
    return re.compile(rf"([{BLANK}]*+){start}({head}){message}({body})(?<!<)({footer})")
