"""Compaction: a summary that the model writes takes the place of what it said and did before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from antiphon.conversation import Event, Message, Role, ToolChoice, Usage, visible_to_user
from antiphon.generation import Draft, TurnRequest, reply_of
from antiphon.generation.constraint import tokens_of
from antiphon.wire.errors import refused

from .event_schema import response_usage
from .item_schema import CompactionItem
from .items import PREFIXES, Entry
from .schema import CompactedResponse, ResponsesRequest

STAYING = ("user", "system", "developer")
"""Roles whose messages stay as they were when the rest is compacted."""
MOST_TOKENS = 8192
"""Tokens of one summary, its reasoning included."""
SHARE = 0.75
"""The part of a model's context from which a prompt is compacted where no threshold is named."""
INSTRUCTION = (
    "Write a summary of this conversation, from which another assistant will go on in your place without seeing it. "
    "Say what was requested and what must be observed; what was found out, done and decided, with names, numbers, "
    "paths and quotations as they were; what is not finished, and what comes next. Write the summary alone."
)
HEADING = "What the assistant said and did so far, in its own summary:"
UNUSED = (
    "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "text", "include", "top_logprobs",
    "stop", "stop_token_ids", "return_token_ids", "explain_prefix", "finish", "store", "context_management",
)  # fmt: skip
"""Fields of a response on which its compaction does not depend."""


class Summary(msgspec.Struct, frozen=True):
    """``message`` is what the model gets in place of what was compacted."""

    message: Message
    usage: Usage


class Compaction(msgspec.Struct, frozen=True):
    """A summary, and the ``encrypted_content`` that its item has."""

    summary: Summary
    encrypted: str

    @property
    def entry(self) -> Entry:
        """As it is read; an id is given to it where it is listed."""
        return Entry({"type": "compaction"}, (self.summary.message,))


def standing(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries that the model gets: of those before the last compaction, the messages that stay."""
    last = max((i for i, entry in enumerate(entries) if _kind(entry) == "compaction"), default=0)
    return [*filter(stays, entries[:last]), *entries[last:]]


def stays(entry: Entry) -> bool:
    """Whether an item is left as it was when what is around it is compacted."""
    return entry.item is not None and _kind(entry) == "message" and entry.item["role"] in STAYING


def _kind(entry: Entry) -> str:
    return str(entry.item["type"]) if entry.item else ""


async def compaction_due(wire: ResponsesRequest, messages: Sequence[Message], draft: Draft) -> bool:
    """Whether a prompt is to be compacted first, as it has too many tokens; never between a call and its output.

    Raises `RequestError` at an image that is none.
    """
    if not wire.context_management or waiting_call(messages) is not None:
        return False
    threshold = wire.context_management[0].compact_threshold
    return await tokens_of(draft) > (draft.model.context * SHARE if threshold is None else threshold)


def waiting_call(messages: Iterable[Message]) -> str | None:
    """The id of a call without its output."""
    calls: dict[str | None, None] = {}
    for message in messages:
        if message.is_call:
            calls[message.call_id] = None
        elif message.role is Role.TOOL:
            calls.pop(message.call_id, None)
    return next(iter(calls), None)


def summary_turn(turn: TurnRequest) -> TurnRequest:
    """The turn that writes the summary of ``turn``'s conversation: text, no calls, nothing else that was requested."""
    requested = Message(role=Role.USER, text=INSTRUCTION)
    conversation = replace(turn.conversation.add(requested), tools=(), builtins=(), response_format=None)
    return replace(
        turn,
        conversation=conversation,
        tool_choice=ToolChoice(),
        max_tokens=min(turn.max_tokens or MOST_TOKENS, MOST_TOKENS),
        stop=(),
        stop_token_ids=frozenset(),
        logprobs=None,
        return_token_ids=False,
        explain_prefix=False,
        finish=None,
    )


def summary_of(events: Iterable[Event]) -> Summary | None:
    """Returns the visible text that the model wrote; None where there is none."""
    reply = reply_of(events)
    text = "\n\n".join(message.text for message in reply.messages if visible_to_user(message)).strip()
    if not text:
        return None
    return Summary(Message(role=Role.USER, text=f"{HEADING}\n\n{text}"), reply.usage)


def check_compactable(wire: ResponsesRequest) -> None:
    """Raises `RequestError` at what only a response can be, and where no model is named."""
    if wire.model is None:
        raise refused("model", "a compaction needs it.", code="missing_required_parameter")
    for name in ("stream", "background"):
        if getattr(wire, name):
            raise refused(name, "a compaction is answered whole, and at once.")


def check_answered(entries: Iterable[Entry]) -> None:
    """Raises `RequestError` where a call waits: its output would belong to nothing."""
    waiting = waiting_call(message for entry in entries for message in entry.messages)
    if waiting is not None:
        raise refused("input", f"the call {waiting[:80]!r} has no output.", hint="Compact when its output is there.")


def unused(wire: ResponsesRequest) -> tuple[str, ...]:
    """The fields of a request for a compaction that change nothing."""
    return tuple(name for name in UNUSED if getattr(wire, name) is not None)


def without_unused(wire: ResponsesRequest) -> ResponsesRequest:
    return msgspec.structs.replace(wire, **dict.fromkeys(UNUSED))


def compacted_response(
    entries: Sequence[Entry], compaction: Compaction, *, token: str, created: int
) -> CompactedResponse:
    """The messages that stay, and the compaction of all the others."""
    item = CompactionItem(id=f"{PREFIXES['compaction']}_{token}", encrypted_content=compaction.encrypted)
    staying = [dict(entry.item or {}) for entry in entries if stays(entry)]
    output = [*staying, msgspec.to_builtins(item)]
    usage = response_usage(compaction.summary.usage)
    return CompactedResponse(id=f"resp_{token}", created_at=created, output=output, usage=usage)
