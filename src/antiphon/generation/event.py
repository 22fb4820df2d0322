"""What a turn gives, and who may look on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from antiphon.conversation import Event


@dataclass(frozen=True, slots=True)
class ChoiceEvent:
    """What happened in one of the ``n`` choices of a turn, which has said ``completion_tokens`` so far."""

    choice: int
    event: Event
    completion_tokens: int = 0


class Filter(Protocol):
    """Lets the events of a turn through. It measures, or ends a turn with an error; it changes no event.

    Closing what it returns closes ``events``.
    """

    def __call__(
        self, events: AsyncGenerator[ChoiceEvent, None], *, prompt_tokens: int
    ) -> AsyncGenerator[ChoiceEvent, None]: ...
