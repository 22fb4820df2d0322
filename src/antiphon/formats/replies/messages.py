"""The events of a reply: messages that begin, go on and end, and incidents; a call on its way into a message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import replace

from antiphon.conversation import (
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
)
from antiphon.errors import ParseError, Position
from antiphon.formats.offered_calls import MALFORMED, NOT_ALLOWED, is_object
from antiphon.tokens import whole_pairs

from .json_text import json_inside
from .literal import whole_escapes
from .source import SYMBOL, Source

FINAL = Message(role=Role.ASSISTANT, channel=Channel.FINAL)
ANALYSIS = Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS)


def recipient_of(name: str) -> str:
    """The recipient of a call by this name."""
    return name if name.startswith("functions.") else f"functions.{name}"


def call_header(name: str, call_id: str | None) -> Message:
    """The header of a call's message, which is addressed to the tool."""
    return Message(
        role=Role.ASSISTANT,
        recipient=recipient_of(name),
        channel=Channel.COMMENTARY,
        content_type="json",
        call_id=call_id,
    )


class Messages:
    """Collects the events, in which ``decode`` spells out controls. ``strict``: an incident raises `ParseError`."""

    def __init__(self, decode: Callable[[str], str], *, strict: bool) -> None:
        self._decode = decode
        self.began = False
        """There is a message."""
        self.open: Message | None = None
        self.strict = strict
        self.texts: list[str] = []
        self.events: list[ParserEvent] = []

    @property
    def in_call(self) -> bool:
        """The open message is a call."""
        return self.open is not None and self.open.is_call

    def taken(self) -> list[ParserEvent]:
        events, self.events = self.events, []
        return events

    def begin_again(self) -> None:
        """Forgets what was collected: it was the prompt's. A call that the prompt began goes on."""
        header, self.open = self.open, None
        self.texts, self.events, self.began = [], [], False
        if header is not None and header.recipient:
            self.begin(header)

    def begin(self, header: Message) -> None:
        self.open, self.texts, self.began = header, [], True
        self.events.append(MessageStarted(header))

    def delta(self, text: str) -> None:
        """More text of the open message."""
        if text:
            if not text.isascii():
                text = SYMBOL.sub(self._spelled, text)
            self.texts.append(text)
            self.events.append(TextDelta(text))

    def _spelled(self, symbol: re.Match[str]) -> str:
        """A control inside a text; in a call that is the inside of a JSON string."""
        spelling = self._decode(symbol.group())
        return json_inside(spelling) if self.in_call else spelling

    def end(self, end: End) -> None:
        """Ends the open message, if there is one."""
        if self.open is not None:
            self.events.append(MessageEnded(replace(self.open, text="".join(self.texts), end=end)))
            self.open = None

    def incident(self, code: str, position: int, text: str) -> None:
        """``position``: in characters of the reply, a control counting as one."""
        text = self._decode(text)
        if self.strict:
            message = f"{code.replace('_', ' ')}: {text[:80]!r}"
            raise ParseError(message, code=code, position=Position(offset=position))
        self.events.append(Incident(code, position, text))


NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}\Z")


class Malformed(Exception):
    """The text is no call, and nothing of it was made a message. ``text``: what was read of it last.

    ``over``: it was read to what ends a call.
    """

    code = "malformed_call"

    def __init__(self, text: str = "", *, over: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.over = over


class NotAllowed(Malformed):
    """A call of a tool that may not be called."""

    code = NOT_ALLOWED


class OpenCall:
    """One call on its way into a message: it begins when its name is known, and what came before waits.

    ``waits``: until all of it is there, because its id comes last. ``allowed``: the recipients that it may have.
    ``begins`` is called first. ``listed``: others may follow, so one that is not allowed is read to its end.
    """

    def __init__(
        self,
        source: Source,
        messages: Messages,
        allowed: Collection[str] | None,
        begins: Callable[[], None],
        *,
        waits: bool = False,
        listed: bool = False,
    ) -> None:
        self.name: str | None = None
        self.call_id: str | None = None
        self.begun = False
        self.has_arguments = False
        self.in_arguments = False
        self.headed = False
        """All that comes before the arguments is whole."""
        self.is_empty = False
        """Its tag closes itself."""
        self.extra: list[str] = []
        self._source = source
        self._messages = messages
        self._allowed = allowed
        self._begins = begins
        self._listed = listed and bool(allowed)
        self._refused = False
        self._waits = waits
        self._waiting: list[str] = []

    def put(self, text: str) -> bool:
        """More of the arguments, as JSON; whether that is in the message already."""
        self.has_arguments = True
        if not self.begun:
            if self.name is None or self._waits:
                self._waiting.append(text)
                return False
            self.begin()
        if self.begun:
            self._messages.delta(text)
        return self.begun

    @property
    def is_broken(self) -> bool:
        """Whether the arguments, which are all there, are no object."""
        return not is_object("".join(self._messages.texts if self.begun else self._waiting))

    def begin(self) -> None:
        if not self.begun and not self._refused:
            self.begun = True
            self._begins()
            self._source.recorded()
            self._messages.begin(call_header(self.name or "", self.call_id))
            for text in self._waiting:
                self._messages.delta(text)

    def named(self, text: object) -> None:
        """The name, without the quotes that some models add. Raises `Malformed` for what is none, or not allowed."""
        name = str(text).strip().strip("\"'").strip()
        if not NAME.match(name):
            raise Malformed
        if self._allowed is not None and not self.begun and recipient_of(name) not in self._allowed:
            if not self._listed:
                raise NotAllowed
            self._refused = True
        self.name = name
        if self._waiting and not self._waits:
            self.begin()

    def end(self, *, whole: bool) -> bool:
        """Ends the call; whether its arguments broke."""
        self.in_arguments = False
        if self._refused:
            raise NotAllowed
        self._waits = False
        if whole and not self.has_arguments:
            self.put("{}")
        self.begin()
        broken = whole and self.is_broken
        if broken:
            self._messages.incident(MALFORMED, self._source.position, self.name or "")
        self._messages.end(End.CALL if whole else End.NONE)
        return broken


def name_in(call_id: str, pattern: str) -> str:
    """The name in an id like ``functions.get_weather:0``, by the pattern that such ids have."""
    before, _, behind = pattern.partition("{name}")
    name = call_id.removeprefix(before)
    mark = behind.partition("{index}")[0]
    head, found, index = name.rpartition(mark) if mark else (name, "", "")
    return head if found and index.isdigit() else name


def unquoted(value: str, *, cut: bool = False) -> str:
    """The arguments that a JSON string spells, one that was cut as far as it came; as they are where it is none."""
    try:
        string = whole_pairs(whole_escapes(value) + '"' if cut else value)
        return str(json.loads(string, strict=False)) or "{}" * (not cut)
    except ValueError:
        return value


def id_of(value: str) -> str | None:
    """The id that a JSON text spells; None for what is none."""
    try:
        found = json.loads(whole_pairs(value))
    except ValueError:
        return None
    return found if isinstance(found, str) and found else None
