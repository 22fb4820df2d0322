"""Finds calls in what a parser reads as the answer: those in another form than the trained one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from antiphon.conversation import (
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    TextDelta,
    visible_to_user,
)
from antiphon.formats.format import ForeseeingParser, Parser, Rest, RestingParser, last_events, rest_of
from antiphon.formats.replies.messages import call_header
from antiphon.tokens import Piece

from .beginning import OPENERS, Begins, Candidate
from .offered import FoundCall, Offered
from .texts import calls_in

OTHER_FORM = "call_in_other_form"
_EXAMPLE = re.compile(
    r"(?<![\w/@.-])examples?(?![\w/@-]|\.\w)|\be\.g\.|\b(for instance|an? sample|such a call|syntax"
    r"|(would|could|might|may) (\w+ )?look (like|as|some)|looks? like (this|so|the following)"
    r"|beispiel\w*|exemple|ejemplo|esempio)\b|例",
    re.IGNORECASE,
)
"""Words before a call that make it an example of one."""
LEAD = 160
"""Characters before a call in which they stand."""

Sure = Callable[[str, Sequence[FoundCall]], bool]
"""Whether the model was sure of the calls that a text is."""


class OtherCalls(ForeseeingParser, RestingParser):
    """A `Parser` over another. The end of an answer that is nothing but calls is made calls, behind an incident.

    A text that may become one is buffered until that is decided. Text behind a call makes it an example of a call,
    which is part of the answer.
    """

    def __init__(self, parser: Parser, offered: Offered, sure: Sure | None = None) -> None:
        self._parser = parser
        self._foresees = parser if isinstance(parser, ForeseeingParser) else None
        self._offered = offered
        self._sure = sure
        self._position = 0
        self._open: Message | None = None
        """The open answer."""
        self._started = False
        """Its beginning was passed on: it has text."""
        self._said: list[str] = []
        self._candidate: Candidate | None = None
        self._lead = ""
        """The blanks before the candidate."""
        self._line = ""
        """The last character of the current line that is no blank."""

    @property
    def ended(self) -> str | None:
        return self._parser.ended

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        pieces = pieces if isinstance(pieces, (list, tuple)) else list(pieces)
        events = self._parser.feed(pieces)
        for piece in pieces:
            self._position += len(piece) if isinstance(piece, str) else 1
        if self._open is None:
            for event in events:
                if isinstance(event, MessageStarted):
                    break
            else:  # Nearly every token of a call, and of a thought.
                return events
        return self._passed(events)

    def more_text(self, texts: Sequence[str | None], start: int) -> int:
        """As `ForeseeingParser` has it: none while a text is buffered, and none that may begin a call."""
        if self._foresees is None or self._candidate is not None or (self._open is not None and not self._started):
            return 0
        count = self._foresees.more_text(texts, start)
        if self._open is None:
            return count
        opens = (i for i in range(count) if OPENERS.search(texts[start + i] or ""))
        return next(opens, count)

    @property
    def rest(self) -> Rest | None:
        """As `RestingParser` has it; what begins a call behind it depends on the `LEAD` characters before that."""
        rest = rest_of(self._parser)
        if rest is None or self._open is None:
            return rest
        return Rest((rest.place, self._line), rest.json) if self._started and self._candidate is None else None

    def close(self) -> list[ParserEvent]:
        return self._passed(self._parser.close())

    def cut(self) -> list[ParserEvent]:
        return self._passed(last_events(self._parser, cut=True))

    def _passed(self, events: Iterable[ParserEvent]) -> list[ParserEvent]:
        passed: list[ParserEvent] = []
        for event in events:
            match event:
                case MessageStarted(message) if _is_answer(message):
                    self._open, self._started, self._said, self._candidate, self._line = message, False, [], None, ""
                case TextDelta() if self._open is not None:
                    self._text(event, passed)
                case MessageEnded(message) if self._open is not None:
                    self._end(message, passed)
                case _:
                    passed.append(event)
        return passed

    def _text(self, delta: TextDelta, passed: list[ParserEvent]) -> None:
        text = delta.text
        if self._candidate is None and self._started and not OPENERS.search(text):
            self._line = _end_of_line(text, self._line)
            self._said.append(text)
            passed.append(delta)
            return
        while text:
            text = self._go_on(text, passed) if self._candidate is not None else self._look(text, passed)

    def _look(self, text: str, passed: list[ParserEvent]) -> str:
        """Says the text up to where a call may begin, and returns the rest."""
        at = 0
        while (found := OPENERS.search(text, at)) is not None:
            # An object in the middle of a line is a part of what is said, unless a colon announces it.
            before = _end_of_line(text[: found.start()], self._line)
            if found.group() in "`<" or not before or (before == ":" and found.group() != "A"):
                solid = text[: found.start()].rstrip()
                self._say(solid, passed)
                self._lead, self._candidate = text[len(solid) : found.start()], Candidate(self._offered)
                return text[found.start() :]
            at = found.end()
        self._say(text, passed)
        return ""

    def _go_on(self, text: str, passed: list[ParserEvent]) -> str:
        candidate = self._candidate
        assert candidate is not None
        if candidate.feed(text) is not Begins.NO:
            return ""
        # The first character is text; a call may begin at any behind it.
        self._candidate = None
        run = candidate.run
        self._say(self._lead + candidate.text[:run], passed)
        return candidate.text[run:]

    def _say(self, text: str, passed: list[ParserEvent]) -> None:
        if not text or self._open is None:
            return
        if not self._started:
            if not text.strip() and not self._said:
                self._said.append(text)
                return
            passed.append(MessageStarted(self._open))
            text, self._said = "".join((*self._said, text)), []
            self._started = True
        self._line = _end_of_line(text, self._line)
        self._said.append(text)
        passed.append(TextDelta(text))

    def _end(self, message: Message, passed: list[ParserEvent]) -> None:
        candidate, self._candidate = self._candidate, None
        calls: list[FoundCall] = []
        if candidate is not None and candidate.begun and not _EXAMPLE.search("".join(self._said)[-LEAD:]):
            calls = calls_in(candidate.text, self._offered, whole=message.end is not End.NONE)
        if candidate is not None and calls and (candidate.is_marked or self._is_sure(candidate.text, calls)):
            self._call(candidate.text, calls, message, passed)
        else:
            self._rest(self._lead + candidate.text if candidate is not None else "", passed)
            passed.append(MessageEnded(message))
        self._open = None

    def _is_sure(self, text: str, calls: Sequence[FoundCall]) -> bool:
        return self._sure is None or self._sure(text, calls)

    def _rest(self, text: str, passed: list[ParserEvent]) -> None:
        if self._open is not None and not self._started:
            passed.append(MessageStarted(self._open))
            self._started, text, self._said = True, "".join((*self._said, text)), []
        if text:
            passed.append(TextDelta(text))

    def _call(self, text: str, calls: Sequence[FoundCall], message: Message, passed: list[ParserEvent]) -> None:
        if self._started:
            passed.append(MessageEnded(replace(message, text="".join(self._said), end=End.END)))
        passed.append(Incident(OTHER_FORM, self._position - len(text), text))
        end = End.NONE if message.end is End.NONE else End.CALL
        for call in calls:
            header = call_header(call.tool.recipient, call.call_id)
            whole = replace(header, text=call.arguments, end=end)
            passed += (MessageStarted(header), TextDelta(call.arguments), MessageEnded(whole))


def _end_of_line(text: str, line: str) -> str:
    """The last character that is no blank of the line that goes on behind ``text``; ``line``: of what is before it."""
    _, broken, last = text.rpartition("\n")
    return last.rstrip()[-1:] or ("" if broken else line)


def _is_answer(message: Message) -> bool:
    return visible_to_user(message) and not message.is_call and message.effective_channel == Channel.FINAL
