"""Events of a session's turn → one JSON object, or one a line."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.conversation import Event, FinishReason
from antiphon.errors import AntiphonError
from antiphon.generation import StepEvents
from antiphon.wire.errors import ErrorDetail
from antiphon.wire.json import encode
from antiphon.wire.projection import Finished, Projection, VisibleText
from antiphon.wire.writer import JSON, StreamForm

from .wire import InteractiveAnswer, InteractiveRequest

JSON_LINES = "application/x-ndjson; charset=utf-8"
CUT = (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT, FinishReason.TIMEOUT)


class InteractiveWriter:
    """One turn: the `Writer` of LMDeploy's interactive chat. ``head`` has what every line says.

    An empty line is a sign of life, an error is the last line; ``describe`` says it as OpenAI does.
    """

    media_type = JSON

    def __init__(self, head: InteractiveAnswer, describe: Callable[[AntiphonError], ErrorDetail]) -> None:
        self.form = StreamForm(self._error, media_type=JSON_LINES, keep_alive=b"\n")
        self._describe = describe
        self._so_far = head
        self._projection = Projection()
        self._texts: list[str] = []

    def change(self, step: StepEvents[Event]) -> bytes:
        return b"".join([encode(part) + b"\n" for part in self._parts(step)])

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[Event]) -> None:
        self._texts += (part.text for part in self._parts(step))

    def whole(self) -> bytes:
        return encode(self._now(text="".join(self._texts)))

    def _parts(self, step: StepEvents[Event]) -> list[InteractiveAnswer]:
        parts: list[InteractiveAnswer] = []
        for event in step.events:
            match self._projection.feed(event):
                case VisibleText(text):
                    parts.append(self._now(text=text, tokens=step.completion_tokens))
                case Finished(reason, usage):
                    parts.append(
                        self._now(
                            text="",
                            tokens=usage.completion_tokens,
                            finish_reason="length" if reason in CUT else "stop",
                            cached_tokens=usage.cached_tokens or 0,
                        )
                    )
                case _:
                    pass
        return parts

    def _now(self, **changes: object) -> InteractiveAnswer:
        self._so_far = msgspec.structs.replace(self._so_far, **changes)
        return self._so_far

    def _error(self, error: AntiphonError) -> bytes:
        return encode(self._now(text="", finish_reason="error", error=self._describe(error))) + b"\n"


def nothing(wire: InteractiveRequest) -> InteractiveAnswer:
    """The answer where the model was not run."""
    return InteractiveAnswer(text="", tokens=0, input_tokens=0, history_tokens=0, session_id=wire.session_id)
