"""An OpenChatML transcript → a turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date

import msgspec

from antiphon.conversation import Conversation, End, Message, Role, visible_to_user
from antiphon.errors import ParseError, Position, RequestError
from antiphon.formats.openchatml import DocumentHeader, Trivia, envelope_of, read, repair
from antiphon.formats.openchatml.finding import E_CONSTRAINT, E_TRUNCATED
from antiphon.formats.openchatml.spelling import ENDLITERAL, LITERAL
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
    """An answer that the transcript leaves open is to be continued.

    Raises `ParseError` with the specification's code and place, `RequestError` for a setting.
    """
    conversation = _read(body)
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


def _read(body: bytes) -> Conversation:
    """A valid transcript, or one that only lacks the end of its last message, a visible one of the assistant's."""
    try:
        return read(body)
    except ParseError as error:
        if error.code != E_TRUNCATED:
            raise
        conversation, findings = repair(body, fragment=False)
        wrong = [finding for finding in findings if not finding.warning]
        last = conversation.messages[-1] if conversation.messages else None
        if last is None or last.end is not End.NONE or last.role is not Role.ASSISTANT or not visible_to_user(last):
            raise
        if any(finding.code not in (E_TRUNCATED, E_CONSTRAINT) for finding in wrong) or last.text.endswith("<"):
            raise
        if _opens_literal(last):
            raise
        return conversation


def _opens_literal(message: Message) -> bool:
    """Whether the body ends within a literal block, in which nothing can be escaped."""
    spelling = message.extra.get("openchatml")
    body = (spelling.body or "") if isinstance(spelling, Trivia) else ""
    return body.rfind(LITERAL.spelling) > body.rfind(ENDLITERAL.spelling)


def generation_settings(header: DocumentHeader) -> GenerationSettings:
    """Raises `RequestError` with the key's path; a setting that is not known here is refused, not ignored."""
    try:
        return msgspec.convert(dict(header.generation_settings), GenerationSettings)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        path = f"generation_settings{where.rstrip('`')}"
        raise RequestError(f"{path}: {reason}.", position=Position(path=path)) from None
