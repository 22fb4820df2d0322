"""An OpenChatML transcript → a turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date

import msgspec

from antiphon.errors import Position, RequestError
from antiphon.formats.openchatml import DocumentHeader, envelope_of, read
from antiphon.generation import TurnRequest
from antiphon.tenancy import NOBODY, Tenant

from .schema import GenerationSettings


@dataclass(frozen=True, slots=True)
class TranscriptRequest:
    """What is requested: the turn, its model, and the events that the other side takes (None: all)."""

    request: TurnRequest
    model: str | None
    events: Collection[str] | None


def read_transcript(body: bytes, *, today: date | None = None, tenant: Tenant = NOBODY) -> TranscriptRequest:
    """Raises `ParseError` with the specification's code and place, `RequestError` for a setting."""
    conversation = read(body)
    if not conversation.messages:
        raise RequestError("The transcript has no messages.", code="missing_required_parameter")
    header = envelope_of(conversation).header or DocumentHeader()
    settings = generation_settings(header)
    stop = settings.stop
    request = TurnRequest(
        conversation=replace(conversation, settings=replace(conversation.settings, current_date=today)),
        temperature=header.temperature(),
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_p=settings.min_p,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        tenant=tenant,
        any_call=True,
    )
    return TranscriptRequest(request, header.model, header.capabilities.streaming)


def generation_settings(header: DocumentHeader) -> GenerationSettings:
    """Raises `RequestError` with the key's path; a setting that is not known here is refused, not ignored."""
    try:
        return msgspec.convert(dict(header.generation_settings), GenerationSettings)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        path = f"generation_settings{where.rstrip('`')}"
        raise RequestError(f"{path}: {reason}.", position=Position(path=path)) from None
