"""A caller's stop strings, found in the decoded text of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from antiphon.conversation import (
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    TextDelta,
    TokenLogprob,
    visible_to_user,
)
from antiphon.tokens import Control, ControlScanner


class StopStrings:
    """Ends the answer at the first stop string: never half streamed, never leaked, nothing after it.

    Only text that a user may see is searched: reasoning and tool arguments are not the answer. A tail that may still
    become a stop string is buffered; it is never longer than the longest stop.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(Control(stop) for stop in stops)
        self._scanner: ControlScanner | None = None
        self._open: Message | None = None
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self.matched: str | None = None

    def filter(self, events: Iterable[ParserEvent]) -> list[ParserEvent]:
        """The events as they may go on; after a match, the open message's end and no more."""
        if not self._stops:
            return list(events)
        passed: list[ParserEvent] = []
        for event in events:
            if self.matched is not None:
                break
            passed += self._one(event)
        return passed

    def _one(self, event: ParserEvent) -> list[ParserEvent]:
        match event:
            case MessageStarted(message):
                self._open = message
                self._text = []
                self._scanner = ControlScanner(self._stops) if visible_to_user(message) else None
                return [event]
            case TextDelta(text, logprobs) if self._scanner is not None:
                self._logprobs += logprobs
                return self._scan(self._scanner.feed(text))
            case MessageEnded(message) if self._scanner is not None:
                last = self._scan(self._scanner.close())
                self._scanner = None
                return last if self.matched is not None else [*last, event]
            case TextDelta() | MessageEnded() | Incident():
                return [event]

    def _scan(self, pieces: Iterable[str | Control]) -> list[ParserEvent]:
        passed: list[ParserEvent] = []
        for piece in pieces:
            if isinstance(piece, Control):
                self.matched = piece.spelling
                assert self._open is not None
                passed.append(MessageEnded(replace(self._open, text="".join(self._text), end=End.END)))
                break
            self._text.append(piece)
            passed.append(TextDelta(piece, self._take_logprobs()))
        return passed

    def _take_logprobs(self) -> tuple[TokenLogprob, ...]:
        taken = tuple(self._logprobs)
        self._logprobs = []
        return taken
