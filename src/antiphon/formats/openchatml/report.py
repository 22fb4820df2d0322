"""What this implementation reports about a transcript: the answer that the compliance suite compares (§17)."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from antiphon.conversation import (
    FUNCTIONS,
    DebugCapability,
    End,
    FinishReason,
    Message,
    MessageEnded,
    Role,
    ToolSpec,
    TurnEnded,
    Usage,
)
from antiphon.errors import VisibilityError
from antiphon.formats.format import HistoryPolicy

from .body import CallArguments, read_arguments
from .display import show
from .document import STANDARD_EVENTS
from .events import EventStream, WireEvent
from .finding import Finding
from .hip1 import message_to_harmony
from .openchatml import for_prompt, openchatml
from .projection import message_to_json
from .reader import Reader

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
    """``{"code", "line", "column", "message", "hint"}``."""
    return {
        "code": finding.code,
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
    return {
        "valid": not errors,
        "errors": errors,
        "warnings": [finding_to_json(finding) for finding in findings if finding.warning],
        "header": None if header is None else {"version": header.version, **header.fields},
        **_of_messages(messages),
        "resumed": _resumed(messages),
        "calls": list(_calls(messages)),
        "harmony": list(_harmony(messages)),
    }


def _of_reply(reply: bytes, flags: Flags) -> Json:
    """What follows ``<|start|>assistant``, as it streams."""
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
    """A frame in the words of §6. ``constrain``: the type behind ``<|constrain|>``; ``end`` None: it was cut off."""
    return {
        "role": message.role.value,
        "to": message.recipient,
        "call_id": message.call_id,
        "name": message.name,
        "intent": message.intent,
        "channel": message.effective_channel,
        "content_type": message.content_type,
        "constrain": message.content_type if message.constrained else None,
        "body": message.text,
        "end": None if message.end is End.NONE else message.end.value,
    }


def _shown(message: Message, debug: DebugCapability | None) -> str | Json:
    try:
        return show(message, debug=debug)
    except VisibilityError as error:
        return {"code": error.code}


def _resumed(messages: Sequence[Message]) -> list[int]:
    """Which messages the next prompt has (HIP-1.7)."""
    ids = {id(message) for message in for_prompt(messages, HistoryPolicy.GUIDE)}
    return [i for i, message in enumerate(messages) if id(message) in ids]


def _calls(messages: Sequence[Message]) -> Iterator[Json]:
    """What a router does: each call's tool, what it is given, its deadline, and the reply's number (None: open)."""
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
