"""A call of what was not offered is no call: its text is read as an answer.

For formats whose calls are messages like any other. One that marks calls by words of its own gives these back as text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from antiphon.conversation import Channel, End, Incident, Message, MessageEnded, MessageStarted, ParserEvent, TextDelta
from antiphon.errors import ParseError, Position
from antiphon.tokens import Piece

from .format import Parser, Rest, RestingParser, last_events, rest_of

NOT_ALLOWED = "call_not_allowed"
MALFORMED = "malformed_arguments"


def is_object(arguments: str) -> bool:
    """Whether the text is a JSON object, as a function's arguments are."""
    try:
        msgspec.json.decode(arguments, type=dict)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return True


def offered_calls(parser: Parser, calls: Collection[str] | None, *, strict: bool = False) -> Parser:
    """The parser, of whose calls only those to the recipients ``calls`` are calls; None: all of them."""
    return parser if calls is None else OfferedCalls(parser, calls, strict=strict)


class OfferedCalls(RestingParser):
    """A `Parser` over another. ``strict`` raises `ParseError` for a call that is not allowed."""

    def __init__(self, parser: Parser, calls: Collection[str], *, strict: bool) -> None:
        self._parser = parser
        self._calls = frozenset(calls)
        self._strict = strict
        self._position = 0

    @property
    def ended(self) -> str | None:
        return self._parser.ended

    @property
    def rest(self) -> Rest | None:
        return rest_of(self._parser)

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        pieces = list(pieces)
        events = self._parser.feed(pieces)
        self._position += sum(len(piece) if isinstance(piece, str) else 1 for piece in pieces)
        if len(events) == 1 and isinstance(events[0], TextDelta):
            return events  # Nearly every piece of nearly every reply.
        return [passed for event in events for passed in self._passed(event)]

    def close(self) -> list[ParserEvent]:
        return [passed for event in self._parser.close() for passed in self._passed(event)]

    def cut(self) -> list[ParserEvent]:
        return [passed for event in last_events(self._parser, cut=True) for passed in self._passed(event)]

    def _passed(self, event: ParserEvent) -> Iterator[ParserEvent]:
        match event:
            case MessageStarted(message) if self._is_refused(message):
                yield self._incident(message.recipient or "")
                yield MessageStarted(as_answer(message))
            case MessageEnded(message) if self._is_refused(message):
                yield MessageEnded(as_answer(message))
            case _:
                yield event

    def _is_refused(self, message: Message) -> bool:
        return message.is_call and message.recipient not in self._calls

    def _incident(self, recipient: str) -> Incident:
        found = Incident(NOT_ALLOWED, self._position, recipient)
        if self._strict:
            position = Position(offset=found.position)
            raise ParseError(f"{recipient[:80]!r} may not be called", code=found.code, position=position)
        return found


def is_for_tool(call: Message) -> bool:
    """Whether it was ended as a call, or cut, and is no answer: it is JSON, code, or names a tool."""
    text, cut = call.text.strip(), call.end is End.NONE
    tool = call.content_type == "code" or call.recipient == "python" or "." in (call.recipient or "")
    written = tool or text[:1] in ("", "{") or (text[0] == "[" and _is_json(text, cut=cut))
    return (cut or call.end is End.CALL) and written


def _is_json(text: str, *, cut: bool) -> bool:
    """Whether it is JSON, or may become JSON where it was cut."""
    try:
        msgspec.json.decode(text.rstrip("0123456789+-.eE") if cut else text)  # a number that is cut may be none
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return cut and "truncated" in str(error)
    return True


def as_answer(call: Message) -> Message:
    """The text of a call as the answer that it is where nobody takes the call."""
    end = End.END if call.end is End.CALL else call.end
    return Message(role=call.role, channel=Channel.FINAL, text=call.text, end=end)
