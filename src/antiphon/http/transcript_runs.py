"""Answers to transcripts while they are made, so that other requests can cancel them or their calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from antiphon.errors import NotFoundError, Position
from antiphon.generation import RoundEvent, StepEvents
from antiphon.generation.meter import Deadline
from antiphon.generation.rounds import CancellableRounds


class TranscriptCancel(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request to cancel a call of an answer, or all of it. ``reason`` is for the tool's reply and the events."""

    call_id: str | None = None
    reason: str = "cancelled by the client"


class CancelledTranscript(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to a `TranscriptCancel`."""

    id: str
    cancelled: bool
    call_id: str | None = None


class TranscriptRuns:
    """The answers of one server, by their owner and the id with which the ``message_id`` of their events begins."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], CancellableRounds] = {}

    async def steps(
        self, owner: str, id: str, rounds: CancellableRounds, deadline: Deadline | None = None
    ) -> AsyncGenerator[StepEvents[RoundEvent], None]:
        """The steps of an answer, which can be cancelled until they end."""
        self._runs[owner, id] = rounds
        try:
            async with aclosing(rounds.steps(deadline)) as steps:
                async for step in steps:
                    yield step
        finally:
            del self._runs[owner, id]

    def cancel(self, owner: str, id: str, request: TranscriptCancel) -> CancelledTranscript:
        """Cancels what ``request`` names of the answer ``id`` (a ``message_id`` will do).

        Raises `NotFoundError` where ``owner`` has no such answer now, or it waits for no such call.
        """
        id = id.partition(".")[0]
        rounds = self._runs.get((owner, id))
        if rounds is None:
            raise NotFoundError(f"No answer {id[:64]!r} is being made.", position=Position(path="id"))
        if request.call_id is None:
            rounds.cancel()
        elif not rounds.cancel_call(request.call_id, request.reason):
            raise NotFoundError(
                f"No call {request.call_id[:64]!r} waits or runs here.",
                position=Position(path="call_id"),
                hint="Calls of your own tools are yours to give up: answer them with E-TOOL-CANCELLED.",
            )
        return CancelledTranscript(id=id, cancelled=True, call_id=request.call_id)
