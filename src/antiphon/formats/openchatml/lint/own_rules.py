"""Rules of our own: transcripts that are valid, and may not mean what their author meant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.conversation import FUNCTIONS, Channel, Message, Role
from antiphon.errors import FormatError
from antiphon.formats.openchatml.finding import nearest
from antiphon.formats.openchatml.frame import Frame
from antiphon.formats.openchatml.spelling import BY_SPELLING, CONSTRAIN
from antiphon.formats.openchatml.writer import format_transcript

from .rule import Edit, LintedText, Spot

_HEADER_KEYS = ("version", "model", "generation_settings", "capabilities", "profiles")
_SETTINGS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "max_tokens",
    "stop",
    "reasoning_effort",
    "builtin_tools",
)
_CAPABILITIES = ("roles", "channels", "tokens", "streaming")
_SECTIONS = {"generation_settings": _SETTINGS, "capabilities": _CAPABILITIES}
_VERSION = re.compile(r"^[ \t{]*[\"']?version[\"']?[ \t]*:[ \t]*([^\s#,}]+)", re.MULTILINE)
_MARKER = re.compile(r"<\|(?:start|end)_(?:reflect|introspect|reason)\|>")
_CONTROL_LIKE = re.compile(r"(?<!<)<\|([a-z_]{2,20})\|?>")
_MARKERS = ("start_reflect", "start_introspect", "start_reason", "end_reflect", "end_introspect", "end_reason")


def _body_spot(frame: Frame, message: str, hint: str | None = None) -> Spot:
    at = frame.places.body.offset
    return Spot(at, max(at, frame.places.footer.offset), message, hint)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# -- the header -------------------------------------------------------------------------------------------------------


def bare_header(source: LintedText) -> Iterator[Spot]:
    if source.header is not None and not source.header_text.lstrip().startswith("---"):
        yield Spot(source.header_start, source.end_of(source.header_start), "the header has no fences")


def unquoted_version(source: LintedText) -> Iterator[Spot]:
    found = _VERSION.search(source.header_text) if source.header is not None else None
    if found and found[1][0] not in "\"'":
        start, end = (source.header_start + offset for offset in found.span(1))
        yield Spot(start, end, "the version is not quoted", "Unquoted, YAML reads 2.10 as the number 2.1.")


def near_key(source: LintedText) -> Iterator[Spot]:
    fields = source.header.fields if source.header is not None else {}
    sections = [(fields, _HEADER_KEYS), *((fields.get(name), known) for name, known in _SECTIONS.items())]
    for values, known in sections:
        for key in values if isinstance(values, Mapping) else ():
            meant = nearest(str(key), known)
            if meant is not None and isinstance(values, Mapping) and meant not in values:
                yield from _key_spot(source, str(key), meant)


def _key_spot(source: LintedText, key: str, meant: str) -> Iterator[Spot]:
    found = re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", source.header_text)
    if found:
        start, end = (source.header_start + offset for offset in found.span())
        yield Spot(start, end, f"the key {key!r} is not known", f"Did you mean {meant}?")


# -- heads ------------------------------------------------------------------------------------------------------------


def disordered_head(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        if frame.head.canonical or frame.head.problems or frame.head.is_legacy_reply:
            continue
        spelled = source.spell_head(frame.head.message())
        if spelled is not None and spelled != frame.head_text:
            yield Spot(*source.head_span(frame), "the head is not in canonical form", f"It is {spelled!r}.")


def legacy_reply(source: LintedText) -> Iterator[Spot]:
    allowed = source.header is None or source.header.capabilities.allows_role(Role.TOOL)
    for frame in source.frames:
        lacking = frame.message.call_id is None or frame.head.problems
        if frame.head.is_legacy_reply and not lacking and allowed:
            yield Spot(
                *source.head_span(frame), "the reply has its tool's name as role", "Write tool name=functions.x (§6)."
            )


def misplaced_intent(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if message.intent and not (message.role is Role.ASSISTANT and message.channel == Channel.COMMENTARY):
            channel = message.effective_channel
            yield Spot(
                *source.head_span(frame), f"intent={message.intent} stands on {channel}",
                "An intent is for an assistant's commentary (§5).",
            )  # fmt: skip


def foreign_channel(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if message.role in (Role.SYSTEM, Role.DEVELOPER, Role.USER) and message.channel not in (None, Channel.FINAL):
            text = f"the {message.role}'s message is on {message.channel}"
            yield Spot(*source.head_span(frame), text, "analysis and commentary are the assistant's (§5).")


def hidden_plan(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        to_nobody = message.role is Role.ASSISTANT and message.recipient is None and message.intent is None
        if to_nobody and message.channel == Channel.COMMENTARY:
            yield Spot(
                *source.head_span(frame), "commentary to nobody is hidden",
                "A plan for the user has intent=preamble (HIP-1 §6).",
            )  # fmt: skip


# -- calls and replies ------------------------------------------------------------------------------------------------


def unconstrained_call(source: LintedText) -> Iterator[Spot]:
    tokens = source.header.capabilities.tokens if source.header is not None else None
    if tokens is not None and CONSTRAIN.spelling not in tokens:
        return
    for frame in source.calls():
        if not frame.head.problems and _lacks_type(frame.message):
            hint = "Write <|constrain|>json (§8)."
            yield Spot(*source.head_span(frame), "the call's JSON is not marked as JSON", hint)


def _lacks_type(call: Message) -> bool:
    """Whether a function's arguments are an object of JSON that is not marked as such."""
    is_function = (call.recipient or "").startswith(f"{FUNCTIONS}.")
    unmarked = is_function and not call.constrained and call.content_type in (None, "json")
    return unmarked and isinstance(_json(call.text), dict)


def unanswered_call(source: LintedText) -> Iterator[Spot]:
    answered = {frame.message.call_id for frame in source.frames if frame.message.role is Role.TOOL}
    if any(frame.head.is_legacy_reply for frame in source.frames):
        return
    later = [frame for frame in source.frames if frame.message.role is Role.USER]
    last = later[-1].places.start.offset if later else -1
    for frame in source.calls():
        call_id = frame.message.call_id
        if call_id is not None and call_id not in answered and frame.places.start.offset < last:
            yield Spot(*source.head_span(frame), f"the call {call_id!r} has no reply, and the conversation goes on")


def odd_deadline(source: LintedText) -> Iterator[Spot]:
    for frame in source.calls():
        arguments = _json(frame.message.text)
        deadline = arguments.get("deadline_ms", 1) if isinstance(arguments, dict) else 1
        if isinstance(deadline, bool) or not isinstance(deadline, int) or deadline <= 0:
            yield _body_spot(frame, f"deadline_ms is {deadline!r}", "It is a positive number of milliseconds (§8).")


def odd_envelope(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        reply = _json(frame.message.text) if frame.message.role is Role.TOOL else None
        problem = _envelope_problem(reply) if isinstance(reply, dict) and "ok" in reply else None
        if problem:
            yield _body_spot(
                frame, problem, 'An envelope is {"ok": true, "content": …} or {"ok": false, "error": …} (§8).'
            )


def _envelope_problem(reply: dict[str, Any]) -> str | None:
    ok, error = reply["ok"], reply.get("error")
    if not isinstance(ok, bool):
        return "ok is neither true nor false"
    if ok and error is not None:
        return "a reply that is ok has an error"
    return "a reply that is not ok has no error" if not ok and not error else None


def json_calls(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        message = frame.message
        if message.role is Role.ASSISTANT and not message.is_call and "tool_calls" in message.text:
            value = _json(message.text)
            if isinstance(value, dict) and "tool_calls" in value:
                yield _body_spot(frame, "calls stand as JSON in a message's text", "A call is a frame of its own (§6).")


# -- bodies -----------------------------------------------------------------------------------------------------------


def shown_reflection(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        if frame.message.role is not Role.ASSISTANT or frame.message.channel == Channel.ANALYSIS:
            continue
        for found in _MARKER.finditer(source.body(frame)):
            at = frame.places.body.offset + found.start()
            yield Spot(at, at + len(found[0]), f"{found[0]} stands outside analysis", "Reflection is analysis (§7).")


def near_control(source: LintedText) -> Iterator[Spot]:
    """In all the text behind the header: in a misspelled head it is no frame that is read."""
    names = [spelling[2:-2] for spelling in BY_SPELLING]
    meanings = dict.fromkeys(_MARKERS, "")
    for found in _CONTROL_LIKE.finditer(source.text, source.frames_at):
        word = found[1]
        if word not in meanings:
            meanings[word] = word if word in names else nearest(word, names) or ""
        if (meant := meanings[word]) and found[0] not in BY_SPELLING:
            yield Spot(*found.span(), f"{found[0]} is no control", f"Did you mean <|{meant}|>?")


def empty_message(source: LintedText) -> Iterator[Spot]:
    for frame in source.frames:
        if not frame.message.text.strip() and _speaks(frame.message):
            yield Spot(*source.head_span(frame), "the message is empty")


def _speaks(message: Message) -> bool:
    return message.role is not Role.TOOL and not message.is_call


def not_canonical(source: LintedText) -> Iterator[Spot]:
    if canonical_text(source, 0) is not None:
        yield Spot(0, 0, "the transcript is not in canonical form", "`antiphon fmt` writes it so.")


def canonical_text(source: LintedText, at: int) -> Edit | None:
    try:
        formatted = format_transcript(source.text, fragment=True)
    except FormatError:
        return None
    return Edit(0, len(source.text), formatted) if formatted != source.text else None
