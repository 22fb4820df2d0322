"""What several processes of one server have together."""

from __future__ import annotations

from typing import Protocol

from antiphon.http.rules import Rules
from antiphon.http.transcript_runs import TranscriptCancel

from .admission import Admission


class Shares(Protocol):
    """What a process has with the others of its server, where there are any: the limits hold over all of them."""

    def admission(self, rules: Rules) -> Admission: ...

    def model_changed(self, name: str) -> None:
        """A model was fetched or deleted here."""

    async def cancel(self, owner: str, id: str, request: TranscriptCancel) -> bool:
        """Whether another process makes the answer ``id`` to a transcript, and cancels what is requested of it."""

    async def metrics(self) -> bytes:
        """The text of a scrape, summed over all."""
