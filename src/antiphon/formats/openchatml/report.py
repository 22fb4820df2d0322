"""The report on a transcript: the answer that the compliance suite compares (§17)."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    DebugCapability,
    End,
    FinishReason,
    Intent,
    Loss,
    Message,
    MessageEnded,
    Role,
    ToolNamespace,
    ToolSpec,
    TurnEnded,
    Usage,
)
from antiphon.conversation.calls import OpenCalls
from antiphon.errors import VisibilityError
from antiphon.formats.format import HistoryPolicy

from .body import CallArguments, is_function, is_object, read_arguments
from .document import STANDARD_EVENTS, DocumentHeader
from .events import EventStream, WireEvent, frame_head
from .finding import Finding
from .head import ToolNames
from .judges import is_unmarked_json, is_unmarked_plan
from .markers import show
from .openchatml import for_prompt, openchatml
from .projection import message_to_json
from .reader import Reader, TranscriptEnvelope
from .rules import RULES
from .writer import envelope_of

# HIP-1: Harmony ⇄ OpenChatML, as functions on conversations (§12). Neither side is written or read here.

HARD_STOPS = ("<|return|>", "<|call|>")
"""HIP-1.8: what ends inference."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A conversation in the other format, and what that one cannot hold."""

    conversation: Conversation
    losses: tuple[Loss, ...] = ()


def to_harmony(conversation: Conversation) -> Translated:
    """The conversation as Harmony can represent it; ``losses`` lists everything that it cannot."""
    losses: list[Loss] = list(_header_losses(conversation))
    messages: list[Message] = []
    channels: dict[str | None, str] = {}
    for i, message in enumerate(conversation.messages):
        translated = message_to_harmony(message, channels)
        losses += _message_losses(f"messages[{i}]", message, translated)
        messages.append(translated)
    return Translated(replace(conversation, messages=tuple(messages)), tuple(losses))


def message_to_harmony(message: Message, channels: dict[str | None, str]) -> Message:
    """One message of `to_harmony`, for conversations that stream; ``channels`` remembers those of unusual calls."""
    extra = {key: value for key, value in message.extra.items() if key != "openchatml"}
    call_id = None if extra.pop("synthetic_call_id", False) else message.call_id
    bare = replace(message, intent=None, call_id=call_id, extra=extra)
    match message.role:
        case Role.ASSISTANT if message.is_call:
            # HIP-1.2 to 1.5: calls name their channel, and JSON arguments say that they are JSON.
            channel = message.channel or Channel.COMMENTARY
            if channel != Channel.COMMENTARY:  # where the replies of the others are anyway
                channels[message.call_id] = channel
            else:
                channels.pop(message.call_id, None)
            is_json = message.constrained or (message.content_type is None and is_object(message.text))
            content_type = "json" if is_json and message.content_type is None else message.content_type
            return replace(bare, channel=channel, constrained=is_json, content_type=content_type)
        case Role.ASSISTANT:
            # HIP-1.6: Harmony shows all commentary to nobody as a preamble, so what is none must not be there.
            hidden = message.channel == Channel.COMMENTARY and not message.is_preamble
            return replace(bare, channel=Channel.ANALYSIS if hidden else message.effective_channel)
        case Role.TOOL:
            # A-H04: a reply has its call's channel and goes to the assistant.
            channel = message.channel or channels.get(message.call_id, Channel.COMMENTARY)
            return replace(bare, channel=channel, recipient=message.recipient or "assistant")
        case _:
            return replace(bare, channel=None)


def _header_losses(conversation: Conversation) -> Iterator[Loss]:
    header = envelope_of(conversation).header or DocumentHeader()
    carried = {"reasoning_effort", "builtin_tools"}
    yield from (Loss(f"header.{key}", key) for key in header.fields if key not in ("generation_settings", "profiles"))
    yield from (
        Loss(f"header.generation_settings.{key}", key) for key in header.generation_settings if key not in carried
    )


def _message_losses(path: str, message: Message, harmony: Message) -> Iterator[Loss]:
    if message.intent is not None and not message.is_preamble:
        yield Loss(f"{path}.intent", f"intent={message.intent}")
    if message.call_id is not None:
        synthetic = harmony.call_id is None
        yield Loss(f"{path}.call_id", f"call_id={message.call_id}", kind="derivable" if synthetic else "semantic")
    if message.role is not Role.TOOL and message.name is not None:
        yield Loss(f"{path}.name", f"name={message.name}")
    if message.channel is not None and message.channel != harmony.channel:
        yield Loss(f"{path}.channel", f"channel {message.channel}")


def from_harmony(conversation: Conversation) -> Translated:
    """A Harmony conversation with what OpenChatML requires: call ids by position (A-O12), preambles marked (A-H09).

    Its header enables the profile and declares what the conversation does, so that `to_harmony` gives it back.
    """
    way = FromHarmony()
    for message in conversation.messages:
        way.note(message)
    messages = tuple(map(way.message, conversation.messages))
    pairs = enumerate(zip(conversation.messages, messages, strict=True))
    losses = tuple(
        Loss(f"messages[{i}].call_id", f"{made.call_id} is added", kind="derivable")
        for i, (message, made) in pairs
        if made.call_id != message.call_id
    )
    return Translated(replace(way.about(conversation), messages=messages), losses)


class FromHarmony:
    """`from_harmony` for conversations that stream: `note` every message, then get what is around them and each.

    Memory: the call ids of the conversation, and those of open calls.
    """

    def __init__(self) -> None:
        self._calls = OpenCalls()
        self._names: dict[str, None] = {}
        self._functions: dict[str, None] = {Channel.COMMENTARY: None}
        self._builtins: dict[str, None] = {Channel.ANALYSIS: None, Channel.COMMENTARY: None}
        self._whole_profile = True

    def note(self, message: Message) -> None:
        self._calls.reserve(message.call_id)
        if message.role in (Role.ASSISTANT, Role.TOOL) and (message.channel is None or is_unmarked_json(message)):
            self._whole_profile = False
        if message.is_call:
            recipient = message.recipient or ""
            self._names.setdefault(recipient)
            channels = self._functions if is_function(message) else self._builtins
            channels.setdefault(message.effective_channel)
        elif message.role is Role.TOOL and message.name:
            self._names.setdefault(message.name)

    def about(self, conversation: Conversation) -> Conversation:
        """The conversation with the header for what was noted."""
        profile: dict[str, object] = {"enabled": True}
        if self._whole_profile:
            profile["require_channels"] = list(map(str, Channel))
        profile["tool_calls_in"] = list(map(str, self._functions))
        profile["builtins_in"] = list(map(str, self._builtins))
        declared = [namespace.name for namespace in conversation.builtins]
        known = ToolNames().declare(declared)
        unknown = dict.fromkeys(name.partition(".")[0] for name in self._names if not known.knows(name))
        effort = conversation.settings.reasoning_effort
        header = DocumentHeader(fields={"profiles": {"harmony": profile}}).with_settings(
            reasoning_effort=effort.value if effort else None, builtin_tools=[*declared, *unknown] or None
        )
        named = {namespace.name: namespace for namespace in conversation.builtins}
        builtins = tuple(named.get(name, ToolNamespace(name)) for name in header.builtin_tools)
        return replace(
            conversation, builtins=builtins, extra={**conversation.extra, "openchatml": TranscriptEnvelope(header)}
        )

    def message(self, message: Message) -> Message:
        call_id = message.call_id
        if message.is_call:
            call_id = call_id or self._calls.free_id()
        elif message.role is Role.TOOL:
            call_id = call_id or self._calls.oldest(message.name)
        identified = _message_from_harmony(message, call_id)
        self._calls.follow(identified)
        return identified


def _message_from_harmony(message: Message, call_id: str | None) -> Message:
    added = call_id is not None and message.call_id is None
    return replace(
        message,
        call_id=call_id,
        intent=Intent.PREAMBLE if is_unmarked_plan(message) else message.intent,
        end=End.CALL if message.is_call and message.end is not End.NONE else message.end,
        extra={**message.extra, "synthetic_call_id": True} if added else message.extra,
    )


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Flags:
    """The words behind a program's name: what the transcript is, and how it is to be read.

    ``cuts`` are offsets in its bytes; ``cancel`` is None, "" for the whole turn, or the id of a call.
    """

    fragment: bool = False
    harmony: bool = False
    reply: bool = False
    cuts: tuple[int, ...] = ()
    cancel: str | None = None

    @classmethod
    def read(cls, words: Sequence[str]) -> Flags:
        """Raises `ValueError` for a word that is none of the suite's."""
        given = dict(word.partition("=")[::2] for word in words)
        flags = cls(
            fragment=given.pop("--fragment", None) is not None,
            harmony=given.pop("--harmony", None) is not None,
            reply=given.pop("--reply", None) is not None,
            cuts=tuple(int(cut) for cut in given.pop("--cuts", "").split(",") if cut),
            cancel=given.pop("--cancel", None),
        )
        if given:
            raise ValueError(f"unknown flags: {' '.join(given)}")
        return flags

    def pieces(self, data: bytes) -> Iterator[bytes]:
        edges = [0, *self.cuts, len(data)]
        return (data[start:end] for start, end in pairwise(edges))


def check(transcript: bytes, words: Sequence[str] = ()) -> Json:
    """This reader's report, as docs/openchatml.md describes it. ``words``: the suite's flags."""
    flags = Flags.read(words)
    return _of_reply(transcript, flags) if flags.reply else _of_transcript(transcript, flags)


def finding_to_json(finding: Finding) -> Json:
    """``{"code", "rule", "clause", "line", "column", "message", "hint"}``; the clause is of the format's page."""
    return {
        "code": finding.code,
        "rule": finding.rule,
        "clause": RULES[finding.rule].clause,
        "line": finding.position.line,
        "column": finding.position.column,
        "message": finding.message,
        "hint": finding.hint,
    }


def _of_transcript(transcript: bytes, flags: Flags) -> Json:
    reader = Reader(strict=False, fragment=flags.fragment, harmony=flags.harmony)
    read = [found for piece in flags.pieces(transcript) for found in reader.feed(piece)] + reader.close()
    messages = [found for found in read if isinstance(found, Message)]
    findings = [found for found in read if isinstance(found, Finding)]
    errors = [finding_to_json(finding) for finding in findings if not finding.warning]
    header = reader.header
    resumed = {id(message) for message in for_prompt(messages, HistoryPolicy.GUIDE)}  # HIP-1.7: what a prompt has
    return {
        "valid": not errors,
        "errors": errors,
        "warnings": [finding_to_json(finding) for finding in findings if finding.warning],
        "header": None if header is None else {"version": header.version, **header.fields},
        **_of_messages(messages),
        "resumed": [i for i, message in enumerate(messages) if id(message) in resumed],
        "calls": list(_calls(messages)),
        "harmony": list(_harmony(messages)),
    }


def _of_reply(reply: bytes, flags: Flags) -> Json:
    """The report on a reply behind ``<|start|>assistant``, as it streams."""
    parser, stream = openchatml(()).parser(), EventStream("reply", accept=STANDARD_EVENTS)
    utf8 = codecs.getincrementaldecoder("utf-8")()
    read = [event for piece in flags.pieces(reply) for event in parser.feed([utf8.decode(piece)])]
    if flags.cancel is None:
        read += parser.close()
    events: list[WireEvent] = [event for one in read for event in stream.feed(one)]
    if flags.cancel:
        events += stream.tool_cancel(flags.cancel, "user")
    events += stream.feed(TurnEnded(_finish(flags, parser.ended), Usage()))
    return {**_of_messages([e.message for e in read if isinstance(e, MessageEnded)]), "events": events}


def _finish(flags: Flags, ended: str | None) -> FinishReason:
    if flags.cancel == "":
        return FinishReason.CANCELLED
    return FinishReason.LENGTH_OUTPUT if ended is None else FinishReason.STOP_EOS


def _of_messages(messages: Sequence[Message]) -> Json:
    return {
        "frames": list(map(_frame, messages)),
        "projection": list(map(message_to_json, messages)),
        "shown": [_shown(message, None) for message in messages],
        "debug": [_shown(message, DebugCapability("conformance")) for message in messages],
    }


def _frame(message: Message) -> Json:
    """A frame in the words of §6; ``end`` None: it was cut off."""
    end = None if message.end is End.NONE else message.end.value
    return {**frame_head(message), "channel": message.effective_channel, "body": message.text, "end": end}


def _shown(message: Message, debug: DebugCapability | None) -> str | Json:
    try:
        return show(message, debug=debug)
    except VisibilityError as error:
        return {"code": error.code}


def _calls(messages: Sequence[Message]) -> Iterator[Json]:
    """The calls as a router runs them: the tool, its arguments, its deadline, and the reply's number (None: open)."""
    replies = {m.call_id: i for i, m in reversed(list(enumerate(messages))) if m.role is Role.TOOL}
    for message in messages:
        if message.is_call:
            arguments, deadline = _arguments(message)
            yield {
                "call_id": message.call_id,
                "to": message.recipient,
                "arguments": arguments,
                "deadline_ms": deadline,
                "reply": replies.get(message.call_id),
            }


def _arguments(call: Message) -> tuple[Any, int | None]:
    """A function's arguments as JSON, without what belongs to the router; another tool's as they are."""
    namespace, _, name = (call.recipient or "").partition(".")
    if namespace != FUNCTIONS:
        return call.text, None
    read = read_arguments(call, ToolSpec(name, parameters={}))
    return (read.values, read.deadline_ms) if isinstance(read, CallArguments) else (call.text, None)


def _harmony(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    """Each message as HIP-1 has it in Harmony."""
    channels: dict[str | None, str] = {}
    for message in messages:
        harmony = message_to_harmony(message, channels)
        yield {**_frame(harmony), "channel": harmony.channel}
