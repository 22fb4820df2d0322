"""One answer of a model as JSON, for files and pipes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from antiphon.conversation import FinishReason, Incident, TurnEnded, visible_to_user
from antiphon.conversation.json import MessageJson, message_json
from antiphon.generation import RoundEvent

from .talking.talk import messages_of
from .transcript import IncidentForm, incident_form


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer: ``text`` is what an end user may see of it."""

    text: str
    messages: tuple[MessageJson, ...]
    incidents: tuple[IncidentForm, ...]
    finish_reason: FinishReason | msgspec.UnsetType = msgspec.UNSET
    usage: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


def answer_form(events: Sequence[RoundEvent]) -> AnswerForm:
    """One answer as JSON; without ``finish_reason`` and ``usage`` when it was stopped."""
    messages = messages_of(events)
    ended = next((event for event in events if isinstance(event, TurnEnded)), None)
    return AnswerForm(
        text="\n".join(message.text for message in messages if visible_to_user(message)),
        messages=tuple(map(message_json, messages)),
        incidents=tuple(incident_form(event) for event in events if isinstance(event, Incident)),
        finish_reason=ended.reason if ended else msgspec.UNSET,
        usage={"prompt_tokens": ended.usage.prompt_tokens, "completion_tokens": ended.usage.completion_tokens}
        if ended
        else msgspec.UNSET,
    )
