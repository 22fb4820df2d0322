"""One trial of a chat template as JSON: a conversation becomes a prompt, a reply becomes messages."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.api.chat.schema import AnswerMessage, ChatMessage, Tool
from antiphon.conversation.json import MessageJson

from .schema import FoundIncident, RenderedPiece
from .template_schema import TemplateCheckRequest


class TemplateTryRequest(TemplateCheckRequest, kw_only=True):
    """A template (or a ``model``, whatever it speaks), the ``messages`` that it writes, and a ``reply`` that is read.

    In ``reply`` the spelling of a control is the control.
    """

    messages: list[ChatMessage]
    tools: list[Tool] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reply: str | None = None


class ReadEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader says, by its ``type``.

    ``started`` and ``ended`` have the ``message``, ``text`` has more of it; ``incident`` has its code and a text.
    """

    type: str
    message: MessageJson | None = None
    text: str | None = None
    incident: str | None = None


class ReadStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of the reply, text or a control, and what was said when it came; neither: the reply was over."""

    text: str | None = None
    control: str | None = None
    events: list[ReadEvent]


class ReplyRead(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as ``/v1/parse`` answers it, and ``steps``, piece by piece."""

    message: AnswerMessage
    messages: list[MessageJson]
    incidents: list[FoundIncident]
    ended: str | None
    steps: list[ReadStep]


class TriedTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt, and the reply where there is one. ``ids``, and the tokens of pieces, are a model's: else null.

    ``source`` is the text of the template, null where the model's format is none.
    """

    name: str
    source: str | None
    text: str
    pieces: list[RenderedPiece]
    ids: list[int] | None
    stop: list[str]
    reply: ReplyRead | None
