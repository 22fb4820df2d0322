"""An OpenChatML transcript → a turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import date

import msgspec

from antiphon.conversation import Conversation, End, Message, Role, ToolChoice, visible_to_user
from antiphon.errors import ParseError, Position, RequestError
from antiphon.formats.openchatml import (
    DeclaredTools,
    DocumentHeader,
    Trivia,
    envelope_of,
    lift_tools,
    read,
    repair,
    tools_behind,
)
from antiphon.formats.openchatml.finding import E_CONSTRAINT, E_TRUNCATED
from antiphon.formats.openchatml.spelling import ENDLITERAL, LITERAL
from antiphon.generation import TurnRequest
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import Offer, Router
from antiphon.wire.sampling import sampled

from .header import SETTINGS, ignored_keys, in_settings, read_header, words
from .schema import GenerationSettings
from .tools import carries_calls, plan_tools

STREAMS = {"true": True, "1": True, "false": False, "0": False}


def is_streamed(requested: str | None, takes_events: bool) -> bool:
    """``?stream=true``, or that the client takes events. Raises `RequestError` for another word."""
    if requested is None:
        return takes_events
    if requested not in STREAMS:
        raise RequestError("stream: must be true or false.", position=Position(path="stream"))
    return STREAMS[requested]


class TranscriptRequest(msgspec.Struct, frozen=True):
    """What is requested: the turn, its model, and the events that the other side takes (None: all).

    ``conversation`` is the transcript as it was read; that of the turn has its declarations as tools. ``builtins`` are
    the header's ``builtin_tools`` (None: it has none), which do not run where it excludes calls or replies;
    ``ignored`` are the paths of its keys that change nothing.
    """

    request: TurnRequest
    conversation: Conversation
    model: str | None
    events: Collection[str] | None
    builtins: tuple[str, ...] | None
    carries_calls: bool
    ignored: tuple[str, ...]

    @property
    def declared(self) -> DeclaredTools:
        """The tools that its calls are checked against."""
        return tools_behind(self.conversation)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the transcript says, without its declarations."""
        return self.request.conversation.messages

    def turn(self, messages: tuple[Message, ...], offer: Offer | None, *, always: bool) -> tuple[TurnRequest, Router]:
        """The turn behind ``messages``, with those tools of ``offer`` that the header names, and what runs them.

        ``always``: with all of them where it has no ``builtin_tools``.
        """
        names = () if self.builtins is None and not always else self.builtins
        conversation = replace(self.request.conversation, messages=messages)
        plan = plan_tools(conversation, offer if self.carries_calls else None, names)
        return replace(self.request, conversation=plan.conversation), plan.router


def read_transcript(body: bytes, *, today: date | None = None, tenant: Tenant = NOBODY) -> TranscriptRequest:
    """An answer that the transcript leaves open is to be continued.

    Raises `ParseError` with the specification's code and place, `RequestError` for a setting.
    """
    conversation = _read(body)
    if not conversation.messages:
        raise RequestError("The transcript has no messages.", code="missing_required_parameter")
    header = envelope_of(conversation).header or DocumentHeader()
    fields = read_header(header)
    settings = fields.generation_settings or GenerationSettings()
    lifted, carries = lift_tools(conversation), carries_calls(header)
    idle = () if carries or not settings.builtin_tools else (f"{SETTINGS}.builtin_tools",)
    request = TurnRequest(
        conversation=replace(lifted, settings=replace(lifted.settings, current_date=today)),
        max_tokens=settings.max_tokens,
        stop=words(settings.stop),
        tenant=tenant,
        any_call=not lifted.tools,
        tool_choice=ToolChoice("auto" if carries else "none"),
        reword=in_settings,
    )
    return TranscriptRequest(
        sampled(request, settings),
        conversation,
        fields.model,
        header.capabilities.streaming,
        None if settings.builtin_tools is None else words(settings.builtin_tools),
        carries,
        (*ignored_keys(header), *idle),
    )


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
