"""Harmony's reply parser as a table: what each control does in each state.

`HarmonyParser` looks a control up here and performs the action. A control that has no entry for the state is reported
as the incident that `UNEXPECTED` gives for that state, and otherwise skipped. docs/harmony.md shows the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from antiphon.conversation import End, Incident, Message, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.formats.format import Rest, is_answer
from antiphon.formats.offered_calls import MALFORMED, is_object
from antiphon.tokens import Control

from .controls import CALL, CHANNEL, CONSTRAIN, END, ENDOFTEXT, MESSAGE, RETURN, START

# The events of a reply while it is read.


def _is_function_call(message: Message) -> bool:
    """Whether the message is a whole call with arguments in JSON."""
    if not message.is_call or message.end is End.NONE or message.content_type not in (None, "json"):
        return False
    return (message.recipient or "").startswith("functions.")


class ReplyEvents:
    """Collects events until they are taken, and the text of the open message.

    ``position`` counts the characters that were read, a control as one. ``answered``: a final answer has ended.
    ``is_reply``: a model is writing it.
    """

    def __init__(self, *, is_reply: bool) -> None:
        self._is_reply = is_reply
        self.position = 0
        self.answered = False
        self._message: Message | None = None
        self._complete_header = True
        self._parts: list[str] = []
        self._aside: list[str] = []
        self._aside_at = 0
        self._events: list[ParserEvent] = []

    @property
    def text(self) -> str:
        """The text of the open message so far."""
        return "".join(self._parts)

    @property
    def has_text(self) -> bool:
        return bool(self._parts)

    def advance(self, characters: int) -> None:
        """Move the position behind what was read."""
        self.position += characters

    def take(self) -> list[ParserEvent]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def incident(self, code: str, text: str = "") -> None:
        self._events.append(Incident(code, self.position, text))

    def incidents(self, repairs: Iterable[tuple[str, str]]) -> None:
        for code, text in repairs:
            self.incident(code, text)

    # The open message

    @property
    def rest(self) -> Rest | None:
        """A place in the open message, once it has text. At the end of a function's call that is to be JSON."""
        if self._message is None or not self._parts:
            return None
        return Rest(json=_is_function_call(replace(self._message, end=End.CALL)))

    def start(self, message: Message, *, complete_header: bool = True) -> None:
        """Open a message. ``complete_header``: its header ended with ``<|message|>``."""
        self._message, self._parts, self._complete_header = message, [], complete_header
        self._events.append(MessageStarted(message))

    def read(self, text: str) -> None:
        """Add text to the open message, and move the position behind it: `add` and `advance` in one, for speed."""
        if text:
            self._parts.append(text)
            self._events.append(TextDelta(text))
            self.position += len(text)

    def add(self, text: str) -> None:
        """Add text to the open message."""
        if text:
            self._parts.append(text)
            self._events.append(TextDelta(text))

    def add_silently(self, text: str) -> None:
        """Add text without an event."""
        self._parts.append(text)

    def finish(self, end: End) -> None:
        """End the open message, and report what is wrong with it as a whole."""
        assert self._message is not None
        message = replace(self._message, text=self.text, end=end)
        if message.role is Role.ASSISTANT and message.recipient is None:
            if end is End.CALL:
                self.incident("call-without-recipient")
            elif message.content_type is not None:
                self.incident("bare-content-type", message.content_type)
        if not self._complete_header and message.is_call and not message.text:
            self.incident("empty-call")
        if self._is_reply and message.text and _is_function_call(message) and not is_object(message.text):
            self.incident(MALFORMED, message.recipient or "")
        self.answered |= is_answer(message)
        self._events.append(MessageEnded(message))
        self._message, self._parts = None, []

    # A message of another role

    def set_message_aside(self, header: str) -> None:
        """Put the message with this header, and all text that follows, into one incident, which `close` adds."""
        self._aside_at = self.position
        self._aside = [header, *self._parts]

    def set_aside(self, text: str) -> None:
        self._aside.append(text)

    def close(self) -> None:
        """Report what was set aside."""
        if self._aside:
            self._events.append(Incident("truncated-at-foreign-role", self._aside_at, "".join(self._aside)))
            self._aside = []


class HarmonyState(StrEnum):
    """The parser's states. The value is the state's name in the documentation."""

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
    """An action of a control. The value is its description in the documentation, with the incidents that it reports."""

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
