"""A chat template checked: what is asked, and what is found."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.api.chat.schema import AnswerMessage, ChatMessage, Tool
from antiphon.conversation.json import MessageJson

from .schema import FoundIncident, RenderedPiece


class TemplateCheckRequest(msgspec.Struct, kw_only=True):
    """The template of a ``model`` (absent: the default); or a ``template`` as text, for a model's vocabulary or none.

    ``controls`` are spellings of control tokens, in place of the model's; ``special_tokens`` those that templates use
    by name (``eos_token`` …); ``response_template`` is what the model's files say of replies.
    """

    model: str | None = None
    template: str | None = None
    special_tokens: dict[str, str] | None = None
    controls: list[str] | None = None
    response_template: Any = None


class ReadPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a reply: reasoning, an answer, or a call with its arguments as JSON."""

    kind: str
    text: str
    name: str | None = None
    call_id: str | None = None


class LostShape(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of reply that is read otherwise than the template writes it."""

    shape: str
    reply: str
    expected: list[ReadPart]
    read: list[ReadPart]


class RepliesFound(msgspec.Struct, frozen=True, kw_only=True):
    """Where the description of replies is from (``source`` in words), and which shapes are read back at every cut.

    ``unwritten``: shapes that the template does not write.
    """

    origin: str
    source: str
    families: list[str]
    proven: list[str]
    failed: list[LostShape]
    unwritten: list[str]
    warnings: list[str]


class PromptChangeFound(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a prompt begins with the former one; if not, from which character on (and token, where known), and why.

    ``former`` and ``next`` are how the two go on from there. ``refused``: the template's own words.
    """

    turn: str
    stable: bool
    at: int | None = None
    token: int | None = None
    cause: str | None = None
    former: str | None = None
    next: str | None = None
    refused: str | None = None


class UnsafeFound(msgspec.Struct, frozen=True):
    """A construct that the sandbox refuses."""

    line: int
    what: str


class PromptBesideHarmony(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a template of Harmony: the ``same`` in Harmony, or from which character on it is not.

    ``template`` and ``harmony`` are how the two go on from there.
    """

    prompt: str
    same: bool
    at: int | None = None
    template: str | None = None
    harmony: str | None = None


class CheckedTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``: nothing is lost; else ``lost`` has a sentence for each thing that is.

    ``arguments`` are the variables that only a request can give. ``prompts`` by name; where the template writes none,
    ``refused`` has its words. ``harmony``: of a template of Harmony, each beside that of a model with its controls.
    """

    name: str
    ok: bool
    lost: list[str]
    replies: RepliesFound
    changes: list[PromptChangeFound]
    variables: list[str]
    arguments: list[str]
    unsafe: list[UnsafeFound]
    prompts: dict[str, str]
    refused: dict[str, str]
    harmony: list[PromptBesideHarmony]


# One trial of a chat template as JSON: a conversation becomes a prompt, a reply becomes messages.


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
