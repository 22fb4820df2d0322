"""Answers to transcripts while they are made, so that other requests can cancel them or their calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from antiphon.errors import NotFoundError, Position, RequestError
from antiphon.generation.cancel import CancellableRounds

from .schema import CancelledTranscript, TranscriptCancel


class TranscriptRuns:
    """Those of one server, by their owner and the id with which the ``message_id`` of their events begins."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], CancellableRounds] = {}

    @contextmanager
    def running(self, owner: str, id: str, rounds: CancellableRounds) -> Iterator[None]:
        """The answer can be cancelled until the context ends."""
        self._runs[owner, id] = rounds
        try:
            yield
        finally:
            del self._runs[owner, id]

    def cancel(self, owner: str, id: str, body: bytes) -> CancelledTranscript:
        """Cancels what ``body``, a `TranscriptCancel` or nothing, says of the answer ``id`` (a ``message_id`` will do).

        Raises `NotFoundError` where ``owner`` has no such answer now, or it waits for no such call.
        """
        wanted = cancel_request(body)
        id = id.partition(".")[0]
        rounds = self._runs.get((owner, id))
        if rounds is None:
            raise NotFoundError(f"No answer {id[:64]!r} is being made.", position=Position(path="id"))
        if wanted.call_id is None:
            rounds.cancel()
        elif not rounds.cancel_call(wanted.call_id, wanted.reason):
            raise NotFoundError(
                f"No call {wanted.call_id[:64]!r} waits or runs here.",
                position=Position(path="call_id"),
                hint="Calls of your own tools are yours to give up: answer them with E-TOOL-CANCELLED.",
            )
        return CancelledTranscript(id=id, cancelled=True, call_id=wanted.call_id)


def cancel_request(body: bytes) -> TranscriptCancel:
    """Raises `RequestError` for a body that is neither empty nor a `TranscriptCancel`."""
    if not body.strip():
        return TranscriptCancel()
    try:
        return msgspec.json.decode(body, type=TranscriptCancel)
    except msgspec.MsgspecError as error:
        reason, _, where = str(error).partition(" - at `$.")
        raise RequestError(f"The body: {reason}.", position=Position(path=where.rstrip("`") or None)) from None
