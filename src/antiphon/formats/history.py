"""Which earlier reasoning a prompt keeps (A-H03; HAR-68 … HAR-70). The conversation itself never changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from antiphon.conversation import Channel, End, Message, Role

from .format import HistoryPolicy


def drop_before(messages: Sequence[Message], policy: HistoryPolicy) -> int:
    """Analysis is dropped from messages with an index below this one."""
    match policy:
        case HistoryPolicy.GUIDE:
            # An answer that the model is to continue still follows from its reasoning.
            ended = messages[:-1] if messages and messages[-1].end is End.NONE else messages
            return next((i for i in range(len(ended) - 1, -1, -1) if is_answer(ended[i])), 0)
        case HistoryPolicy.REFERENCE:
            return _reference(messages)
        case HistoryPolicy.KEEP_ALL:
            return 0
        case HistoryPolicy.DROP_ALL:
            return len(messages)
        case _:
            assert_never(policy)


def is_answer(message: Message) -> bool:
    """An assistant's final message, which closes the reasoning before it."""
    return message.role is Role.ASSISTANT and message.effective_channel == Channel.FINAL and not message.is_call


def _reference(messages: Sequence[Message]) -> int:
    """R-05: up to the first final of anybody, when the last assistant message is final."""
    last_reply = next((m for m in reversed(messages) if m.role is Role.ASSISTANT), None)
    if last_reply is None or last_reply.channel != Channel.FINAL:
        return 0
    return next(i for i, m in enumerate(messages) if m.channel == Channel.FINAL)
