"""Mends of messages: what one rule makes of a message that breaks it. None changes a text; one that is kept gives None.

A mend that is certain is a linter's fix too. Behind a rule that has none, or whose mend finds nothing certain, is its
resort: what `fix` does so that the message can be written.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from antiphon.conversation import FUNCTIONS, Channel, End, Intent, Message, Role
from antiphon.tokens import well_formed

from .body import constraint_problem, shape_problem
from .finding import nearest
from .head import INTENTS
from .judges import is_unmarked_json, is_unmarked_plan
from .spelling import CHANNEL, CONSTRAIN, END, LITERAL, RETURN, is_utf8
from .state import RuleState

_WORDS = ("name", "recipient", "channel", "content_type", "call_id", "intent")


def respell(message: Message, state: RuleState) -> Message | None:
    """The message as it is, without words that are empty: in canonical form its head keeps the rule."""
    empty: dict[str, Any] = {word: None for word in _WORDS if getattr(message, word) == ""}
    return replace(message, **empty) if empty else message


# -- words of the head ------------------------------------------------------------------------------------------------


def name_role(message: Message, state: RuleState) -> Message | None:
    """An unknown role reads as a tool's, whose reply answers nobody."""
    if message.role is not Role.TOOL or message.call_id is not None or message.name is None:
        return None
    role = None if state.names.knows(message.name) else nearest(message.name, tuple(Role))
    return replace(message, role=Role(role), name=None) if role else None


def name_channel(message: Message, state: RuleState) -> Message | None:
    channel = nearest(message.channel, tuple(Channel)) if message.channel is not None else None
    return replace(message, channel=channel) if channel else None


def hide_unknown(message: Message, state: RuleState) -> Message | None:
    """A channel that there is not is hidden; instructions and replies are without one."""
    if message.channel is None or message.channel in set(Channel):
        return None
    return replace(message, channel=Channel.ANALYSIS if message.role in (Role.ASSISTANT, Role.USER) else None)


def name_intent(message: Message, state: RuleState) -> Message | None:
    intent = nearest(message.intent, INTENTS) if message.intent is not None else None
    return replace(message, intent=intent) if intent else None


def drop_intent(message: Message, state: RuleState) -> Message | None:
    return None if message.intent is None or message.intent in INTENTS else replace(message, intent=None)


def qualify_recipient(message: Message, state: RuleState) -> Message | None:
    """A call of a bare name is a function's; whom nobody knows gets no message."""
    to = message.recipient
    if to is None or state.names.addresses(to) or (message.is_call and "." in to):
        return None
    return replace(message, recipient=f"{FUNCTIONS}.{to}" if message.is_call else None)


def name_tool(message: Message, state: RuleState) -> Message | None:
    """A reply is named after the tool that its call is addressed to, and with its namespace (A-O42)."""
    if message.role is not Role.TOOL:
        return None
    name = message.name or state.calls.recipient(message.call_id)
    if name and not state.is_bare_author(message):
        name = state.names.qualify(name)
    return None if name == message.name else replace(message, name=name)


# -- calls and replies ------------------------------------------------------------------------------------------------


def add_call_id(message: Message, state: RuleState) -> Message | None:
    lacking = message.is_call and message.call_id is None
    return replace(message, call_id=state.free_id()) if lacking else None


def number_call_id(message: Message, state: RuleState) -> Message | None:
    """An id that a call had before gets a number."""
    had = message.call_id
    if not message.is_call or had is None or not state.calls.used(had):
        return None
    return replace(message, call_id=next(id for n in state.numbers(had) if not state.calls.used(id := f"{had}_{n}")))


def add_reply_id(message: Message, state: RuleState) -> Message | None:
    """The id of the one call of the tool that waits."""
    lacking = message.role is Role.TOOL and message.call_id is None
    waiting = [*islice(state.calls.waiting(message.name), 2)] if lacking else []
    return replace(message, call_id=waiting[0]) if len(waiting) == 1 else None


def add_oldest_id(message: Message, state: RuleState) -> Message | None:
    """The id of the call that waits longest (A-O15)."""
    if message.role is not Role.TOOL or message.call_id is not None:
        return None
    return replace(message, call_id=state.calls.oldest(message.name))


def add_channel(message: Message, state: RuleState) -> Message | None:
    """A message without a channel gets the one that it is on, or, a call, one that it may be on."""
    if message.channel is not None or message.role not in (Role.ASSISTANT, Role.TOOL):
        return None
    if message.is_call:
        return replace(message, channel=_call_channel(message, state))
    return replace(message, channel=Channel.COMMENTARY if message.role is Role.TOOL else Channel.FINAL)


def require_channel(message: Message, state: RuleState) -> Message | None:
    return add_channel(message, state) if state.needs_channel else None


def place_call(message: Message, state: RuleState) -> Message | None:
    """A call without a channel gets one for calls."""
    return move_call(message, state) if message.channel is None else None


def move_call(message: Message, state: RuleState) -> Message | None:
    """A call moves to a channel for calls."""
    if not message.is_call or message.effective_channel in state.call_channels(message):
        return None
    return replace(message, channel=_call_channel(message, state))


def _call_channel(call: Message, state: RuleState) -> str:
    allowed = state.call_channels(call)
    return Channel.COMMENTARY if Channel.COMMENTARY in allowed else allowed[0]


def mark_json(message: Message, state: RuleState) -> Message | None:
    """JSON arguments are marked as JSON (HIP-1.4)."""
    return replace(message, constrained=True, content_type="json") if is_unmarked_json(message) else None


def mark_required(message: Message, state: RuleState) -> Message | None:
    return mark_json(message, state) if state.needs_channel else None


def mark_status(message: Message, state: RuleState) -> Message | None:
    """Commentary to nobody says that it is not for display (HIP-1.6)."""
    broken = state.needs_channel and is_unmarked_plan(message)
    return replace(message, intent=Intent.STATUS) if broken else None


# -- footers and bodies -----------------------------------------------------------------------------------------------


def set_footer(message: Message, state: RuleState) -> Message | None:
    """``<|call|>`` for a call, ``<|end|>`` for another message."""
    if message.end is End.NONE or (message.end is End.CALL) is message.is_call:
        return None
    return replace(message, end=End.CALL if message.is_call else End.END)


def end_plainly(message: Message, state: RuleState) -> Message | None:
    return replace(message, end=End.CALL if message.is_call else End.END)


def end_open(message: Message, state: RuleState) -> Message | None:
    """A message that was cut ends; a call that was cut is none unless all of its JSON is there."""
    if message.end is not End.NONE:
        return None
    if not message.is_call:
        return replace(message, end=End.END)
    whole = message.constrained and message.content_type and constraint_problem(message) is None
    return replace(message, end=End.CALL) if whole else None


def promise_nothing(message: Message, state: RuleState) -> Message | None:
    """A body that is not what it promises promises nothing."""
    if not message.constrained:
        return None
    broken = message.content_type is None or constraint_problem(message) or shape_problem(message)
    return replace(message, constrained=False, content_type=None) if broken else None


def call_text(message: Message, state: RuleState) -> Message | None:
    """A function's arguments that are no JSON are text."""
    if state.harmony or not shape_problem(message):
        return None
    return replace(message, constrained=False, content_type="text")


# -- what the header excludes -----------------------------------------------------------------------------------------


def as_version_1(message: Message, state: RuleState) -> Message | None:
    """A-O37: version 1 has roles and texts. What has more than these, or is hidden, stays for `write` to refuse."""
    if not state.legacy or message.is_call or message.role in (Role.TOOL, Role.DEVELOPER):
        return None
    return replace(
        _on_no_channel(message), recipient=None, call_id=None, intent=None, constrained=False, end=End.END
    )  # fmt: skip


def without_excluded(message: Message, state: RuleState) -> Message | None:
    """A-O30: the message without the channel, the mark and the footer that the header's capabilities leave out."""
    allows = state.capabilities
    if not state.limited or state.legacy:
        return None
    tokens, channels = allows.tokens, allows.channels
    excluded = not _has(state, CHANNEL) or (channels is not None and message.channel not in channels)
    if message.channel is not None and excluded and not state.require_channels and not message.is_call:
        message = _on_no_channel(message)
    if message.constrained and not _has(state, CONSTRAIN):
        message = replace(message, constrained=False)
    if tokens is not None and message.end in (End.END, End.RETURN) and f"<|{message.end}|>" not in tokens:
        other = END if message.end is End.RETURN else RETURN
        message = replace(message, end=End(other.spelling[2:-2])) if _has(state, other) else message
    return message


def without_literals(message: Message, state: RuleState) -> Message:
    """Without literal blocks a text cannot end with ``<``, and every byte of it is UTF-8. The one mend of texts."""
    if not state.legacy and _has(state, LITERAL):
        return message
    if message.text[-1:] != "<" and is_utf8(message.text):
        return message
    text = well_formed(message.text)
    return replace(message, text=f"{text} " if text.endswith("<") else text)


def _has(state: RuleState, control: object) -> bool:
    return state.capabilities.tokens is None or str(control) in state.capabilities.tokens


def _on_no_channel(message: Message) -> Message:
    """§5: without a channel a message is final, so what is hidden has to name its channel."""
    speaks = message.role in (Role.ASSISTANT, Role.USER)
    if speaks and message.effective_channel != Channel.FINAL and not message.is_preamble:
        return message
    return replace(message, channel=None, intent=None if message.intent == Intent.PREAMBLE else message.intent)
