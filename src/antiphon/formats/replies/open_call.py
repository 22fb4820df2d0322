"""One tool call on its way into a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from antiphon.conversation import End
from antiphon.formats.offered_calls import MALFORMED, NOT_ALLOWED, is_object

from .messages import Messages, call_header, recipient_of
from .source import Source

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
        self.headed = False
        """All that comes before the arguments is whole."""
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
