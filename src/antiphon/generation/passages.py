"""Passages of a conversation as a format writes it, and what of them is known of a format once for all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from antiphon.conversation import Channel, Conversation, Message, Role
from antiphon.errors import AntiphonError
from antiphon.formats import Format, HistoryPolicy
from antiphon.formats.format import drop_before, incidents_of
from antiphon.formats.replies import PLAIN, CallForm
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.formats.template.user_text import ControlSpellings, joined
from antiphon.tokens import Control, Piece, Strip, stripped


class Owner(IntEnum):
    """The one whose text it is. All that a template writes around the texts, offered tools too, is the template's."""

    TEMPLATE = 0
    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    TOOL = 4


class Part(IntEnum):
    """A part of a reply. ``MARKUP`` is what the model writes around the others, ``END`` is its stop."""

    NONE = 0
    REASONING = 1
    CONTENT = 2
    NAME = 3
    ARGUMENTS = 4
    MARKUP = 5
    END = 6


_CHANGES = {
    "reasoning_dropped": "the template leaves out the reasoning",
    "text_lost": "the template leaves out the text, or writes it otherwise",
    "call_lost": "the template does not write the call",
    "call_as_text": "the template has no calls, so the call is a text",
    "reply_not_found": "the template does not write the reply behind a prompt for it, so nothing of it is sampled",
    "end_not_shown": "the template writes no stop behind the reply, so none is sampled",
}


class Change(NamedTuple):
    """Something that the template does not write as it was given.

    ``kind``: ``reasoning_dropped``, ``text_lost``, ``call_lost``, ``call_as_text``, ``reply_not_found``,
    ``end_not_shown``, or the code of an incident with which the history was repaired. ``message`` is its index; -1
    where it is of no one message.
    """

    kind: str
    message: int

    def __str__(self) -> str:
        return _CHANGES.get(self.kind, "the template was given another history, as it cannot write this one")


class Passage(NamedTuple):
    """A stretch that is alike. ``message``: the index of the one whose it is, -1 for the template's."""

    start: int
    end: int
    owner: Owner
    message: int
    part: Part = Part.NONE
    sampled: bool = False


class ReplyPlace(NamedTuple):
    """A reply's place, the length of the stop at its end (0: none is shown), and the indices of its messages."""

    start: int
    end: int
    stop: int
    messages: Sequence[int]


_FIRST = 0x100000
SYMBOLS = re.compile("[\U00100000-\U0010fffd]")
"""Characters that stand for controls, one for each; none of a text is one of them."""
QUESTION = Message(role=Role.USER, text="?")


class Tags:
    """The mark with which arguments begin that are no JSON; ``skipped`` characters of it are before them."""

    def __init__(self, form: CallForm, writing: Writing) -> None:
        key = writing.literal(form.pairs.key if form.pairs else "").strip()
        head = writing.literal(form.head[-1].after if form.head else "").strip()
        self.begins, self.skipped = (key, 0) if key else (head, len(head))
        close = form.close or (form.section.close if form.section else "")
        self.ends = [mark] if (mark := writing.literal(close).strip()) else []


class Writing:
    """One format, with what of it is found once for all conversations."""

    def __init__(self, format: Format, strips: Mapping[Control, Strip], history: HistoryPolicy) -> None:
        self.format = format
        self.history = history
        self.replies = format.replies if isinstance(format, ReplyFormat) else PLAIN
        self._strips = strips
        self._symbols: dict[Control, str] = {}
        self._openings: dict[str, tuple[str, str] | None] = {}
        self._spellings = ControlSpellings(format.controls)
        stops = [self.text([stop]) for stop in format.stops]
        inner = {self.literal(text) for text in self.replies.literals}
        self.inside = {char for text in inner for char in SYMBOLS.findall(text)} - set(stops)
        self.forms = [Tags(form, self) for form in self.replies.calls if form.pairs]
        self.marks = re.compile("|".join([SYMBOLS.pattern, *(re.escape(stop) for stop in stops if stop)]))
        self.stops = frozenset(stops)
        thought = self.replies.reasoning
        self.thought = (
            (self.literal(thought.open).strip(), self.literal(thought.close).strip()) if thought else ("", "")
        )
        self.ends = [self.literal(text).strip() for text in self.replies.ends]

    def text(self, pieces: Iterable[Piece]) -> str:
        """The pieces as a text in which each control is one character."""
        return "".join(self._symbol(p) if isinstance(p, Control) else plain(p) for p in pieces)

    def in_replies(self, control: Control) -> bool:
        """Whether a model writes the control in a reply, or to end it."""
        symbol = self._symbol(control)
        return self.format.framed or symbol in self.inside or symbol in self.stops or symbol in self.ends

    def literal(self, text: str) -> str:
        """A literal of the format's, as it stands in such a text."""
        return self.text(self._spellings.scan(text))

    def pieces(self, conversation: Conversation, *, opens: bool = False) -> tuple[list[Piece], list[str]]:
        """The pieces, with all reasoning that the conversation has, and the codes of repairs."""
        policy = HistoryPolicy.DROP_ALL if self.history is HistoryPolicy.DROP_ALL else HistoryPolicy.KEEP_ALL
        reply_as = Role.ASSISTANT if opens else None
        prompt = self.format.render(conversation, reply_as=reply_as, history=policy)
        codes = [incident.code for incident in incidents_of(prompt)]
        return list(joined(stripped(prompt, self._strips) if self._strips else prompt)), codes

    def kept(self, conversation: Conversation, last: int) -> list[int]:
        """The indices of the messages that the format is given: a template of a model drops reasoning by itself."""
        messages, policy = conversation.messages, self.history
        own = not isinstance(self.format, ReplyFormat) or not hasattr(self.format, "source")
        first = drop_before(messages[:last], policy) if own and policy is not HistoryPolicy.DROP_ALL else 0
        return [i for i, message in enumerate(messages) if i >= first or not is_thought(message)]

    def opening(self, conversation: Conversation) -> tuple[str, str] | None:
        """The text that opens a reply in a prompt: a header, which a history has too, and what may stand behind it.

        None where no control marks it.
        """
        key = repr(conversation.settings)
        if key not in self._openings:
            if len(self._openings) > 100:
                self._openings.clear()
            self._openings[key] = self._opening(conversation)
        return self._openings[key]

    def _opening(self, conversation: Conversation) -> tuple[str, str] | None:
        asked = Conversation((QUESTION,), settings=conversation.settings)
        try:
            whole, opened = (self.text(self.pieces(asked, opens=opens)[0]) for opens in (False, True))
        except AntiphonError:
            return None
        if not opened.startswith(whole):
            return None
        header, mark = opened[len(whole) :], self.thought[0]
        start = header.find(mark) if mark else -1
        header, behind = (header, "") if start < 0 else (header[:start], header[start:])
        return (header, behind) if SYMBOLS.search(header) else None

    def _symbol(self, control: Control) -> str:
        return self._symbols.setdefault(control, chr(_FIRST + len(self._symbols)))


def plain(text: str) -> str:
    """The text without characters that stand for controls."""
    return text if text.isascii() else SYMBOLS.sub("\ufffd", text)


def is_thought(message: Message) -> bool:
    """Whether it is reasoning of an assistant's."""
    return message.role is Role.ASSISTANT and message.channel == Channel.ANALYSIS and not message.is_call
