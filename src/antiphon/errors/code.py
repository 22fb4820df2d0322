"""What the table of codes says of each."""

from __future__ import annotations

from dataclasses import dataclass

from . import AntiphonError


@dataclass(frozen=True, slots=True)
class Code:
    """``meaning`` is one sentence. ``status``: the HTTP status of ``errors``, the classes that are raised with it.

    ``incident``: a parser reports it beside the messages and reads on. ``tool``: a call of a tool failed so; the model
    reads it in the tool's message. One code can be all three. None of them: the API stores it with a failed response.
    """

    meaning: str
    status: int | None = None
    errors: tuple[type[AntiphonError], ...] = ()
    incident: bool = False
    tool: bool = False
