"""An OpenChatML transcript → a turn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import msgspec

from antiphon.conversation import Conversation, End, Message, Role, TextPart, ToolChoice, visible_to_user
from antiphon.conversation.calls import make_answer, make_call
from antiphon.errors import ParseError, Position, RenderError, RequestError
from antiphon.formats.openchatml import (
    DeclaredTools,
    DocumentHeader,
    Fixer,
    TranscriptEnvelope,
    Trivia,
    Writer,
    envelope_of,
    lift_tools,
    read,
    repair,
    tools_behind,
)
from antiphon.formats.openchatml.finding import Finding, RuleName
from antiphon.formats.openchatml.spelling import ENDLITERAL, LITERAL
from antiphon.generation import TurnRequest
from antiphon.structs import ready
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import Offer, Router
from antiphon.wire.sampling import sampled

from .schema import CapabilityLists, GenerationSettings, HeaderFields

# A transcript's header as a request: known keys by type, and those that change nothing.

SETTINGS = "generation_settings"


def read_header(header: DocumentHeader) -> HeaderFields:
    """Raises `RequestError` with the path of a key whose value is of another type, or is none of its words."""
    try:
        return msgspec.convert(_named(header.fields), ready(HeaderFields))
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        path = where.rstrip("`") or "header"
        raise RequestError(f"{path}: {reason}.", code="invalid_value", position=Position(path=path)) from None


def _named(value: Any) -> Any:
    """The value without keys that are no text: no known key is one of them."""
    if not isinstance(value, Mapping):
        return value
    return {key: _named(inner) for key, inner in value.items() if isinstance(key, str)}


def ignored_keys(header: DocumentHeader) -> Iterator[str]:
    """The paths of keys that are unknown here: OpenChatML §2 has them ignored."""
    yield from _unknown(header.fields, HeaderFields, "")
    yield from _unknown(header.fields.get(SETTINGS), GenerationSettings, f"{SETTINGS}.")
    yield from _unknown(header.fields.get("capabilities"), CapabilityLists, "capabilities.")


def _unknown(fields: object, known: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    if isinstance(fields, Mapping):
        yield from (f"{prefix}{key}" for key in fields if key not in known.__struct_fields__)


def in_settings(error: RequestError) -> None:
    """An error of planning, at the place where a header has the setting."""
    path = error.position.path if error.position else None
    if path is not None and path.partition("[")[0] in GenerationSettings.__struct_fields__:
        error.position = Position(path=f"{SETTINGS}.{path}")


def words(value: Any) -> tuple[str, ...]:
    """A word or several, as a header's lists may be written."""
    return (value,) if isinstance(value, str) else tuple(value or ())


# The tools of a transcript: those that run here, and those whose calls go back to the client.

CALL, REPLY = make_call("functions.f", "{}", "-"), make_answer("functions.f", "-", [TextPart("-")])


def carries_calls(header: DocumentHeader) -> bool:
    """Whether a call and its reply can stand behind it: not in version 1, nor where its capabilities exclude one."""
    writer, fixer = Writer(TranscriptEnvelope(header)), Fixer(header)
    try:
        return bool(writer.write(fixer.message(CALL)) and writer.write(fixer.message(REPLY)))
    except RenderError:
        return False


class ToolPlan(msgspec.Struct, frozen=True):
    """``conversation`` offers the model what it may call; ``router`` answers the calls of tools that run here."""

    conversation: Conversation
    router: Router


def plan_tools(conversation: Conversation, offer: Offer | None, names: Sequence[str] | None) -> ToolPlan:
    """``names`` are the header's ``builtin_tools``: of the offer, those run here; None: all of the offer.

    A function that the transcript declares is its client's own, unless the header names it too; where it declares
    functions, others must be named.
    """
    if offer is None:
        return ToolPlan(conversation, Router(()))
    if names is not None:
        offer = offer.only(names)
    elif conversation.tools:
        offer = offer.only([namespace.name for namespace in offer.builtins])
    return ToolPlan(_offered(conversation, offer), offer.router)


def _offered(conversation: Conversation, offer: Offer) -> Conversation:
    served = {spec.recipient for spec in offer.specs}
    names = {one.name for one in offer.builtins} | {spec.name.partition("__")[0] for spec in offer.specs}
    return replace(
        conversation,
        tools=(*(tool for tool in conversation.tools if tool.recipient not in served), *offer.specs),
        builtins=(*(one for one in conversation.builtins if one.name not in names), *offer.builtins),
    )


STREAMS = {"true": True, "1": True, "false": False, "0": False}


def is_streamed(requested: str | None, takes_events: bool) -> bool:
    """``?stream=true``, or that the client takes events. Raises `RequestError` for another word."""
    if requested is None:
        return takes_events
    if requested not in STREAMS:
        raise RequestError("stream: must be true or false.", position=Position(path="stream"))
    return STREAMS[requested]


class TranscriptRequest(msgspec.Struct, frozen=True):
    """A read request: the turn, its model, and the events that the other side takes (None: all).

    ``conversation`` is the transcript as it was read; that of the turn has its declarations as tools. ``builtins`` are
    the header's ``builtin_tools`` (None: it has none), which do not run where it excludes calls or replies;
    ``ignored`` are the paths of its keys that change nothing, ``findings`` faults of its calls and their results.
    """

    request: TurnRequest
    conversation: Conversation
    model: str | None
    events: Collection[str] | None
    builtins: tuple[str, ...] | None
    carries_calls: bool
    ignored: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def declared(self) -> DeclaredTools:
        """The tools that its calls are checked against."""
        return tools_behind(self.conversation)

    def turn(self, offer: Offer | None, *, always: bool) -> tuple[TurnRequest, Router]:
        """The turn behind the messages, with those tools of ``offer`` that the header names, and what runs them.

        ``always``: with all of them where it has no ``builtin_tools``.
        """
        names = () if self.builtins is None and not always else self.builtins
        plan = plan_tools(self.request.conversation, offer if self.carries_calls else None, names)
        return replace(self.request, conversation=plan.conversation), plan.router


def read_transcript(body: bytes, *, today: date | None = None, tenant: Tenant = NOBODY) -> TranscriptRequest:
    """An answer that the transcript leaves open is to be continued.

    Raises `ParseError` with the specification's code and place, `RequestError` for a setting.
    """
    conversation, findings = _read(body)
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
        findings,
    )


_CALLED: frozenset[RuleName] = frozenset({"call-arguments", "call-id-twice", "reply-to-nothing", "body-type"})
"""Rules that calls of a model, and results of tools, may break: an earlier turn is what it is."""


def _read(body: bytes) -> tuple[Conversation, tuple[Finding, ...]]:
    """A valid transcript, or one whose calls are not, or that lacks the end of its last message, which is an answer."""
    try:
        return read(body), ()
    except ParseError:
        conversation, findings = repair(body, fragment=False)
        wrong = tuple(finding for finding in findings if not finding.warning)
        taken = _CALLED | {"truncated"} if _is_open(conversation.messages) else _CALLED
        if any(finding.rule not in taken for finding in wrong):
            raise
        return conversation, tuple(finding for finding in wrong if finding.rule in _CALLED)


def _is_open(messages: Sequence[Message]) -> bool:
    """Whether the last message is a visible one of the assistant's that can be gone on with."""
    last = messages[-1] if messages else None
    if last is None or last.end is not End.NONE or last.role is not Role.ASSISTANT or not visible_to_user(last):
        return False
    return not last.text.endswith("<") and not _opens_literal(last)


def _opens_literal(message: Message) -> bool:
    """Whether the body ends within a literal block, in which nothing can be escaped."""
    spelling = message.extra.get("openchatml")
    body = (spelling.body or "") if isinstance(spelling, Trivia) else ""
    return body.rfind(LITERAL.spelling) > body.rfind(ENDLITERAL.spelling)
