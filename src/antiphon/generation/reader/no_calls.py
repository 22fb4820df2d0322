"""``tool_choice: none`` where no grammar constrains the reply: what the model wrote as a call is given as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from antiphon.conversation import Channel, Incident, Message, MessageEnded, MessageStarted, ParserEvent


def without_calls(events: Iterable[ParserEvent], namespaces: Iterable[str], *, position: int) -> Iterator[ParserEvent]:
    """The events with each call as an answer, and an `Incident` before it. Calls to ``namespaces`` stay calls."""
    builtin = frozenset(namespaces)
    for event in events:
        if isinstance(event, MessageStarted | MessageEnded) and _is_refused(event.message, builtin):
            if isinstance(event, MessageStarted):
                yield Incident("call_not_allowed", position)
            yield replace(event, message=replace(event.message, recipient=None, channel=Channel.FINAL, call_id=None))
        else:
            yield event


def _is_refused(message: Message, builtin: frozenset[str]) -> bool:
    return message.is_call and str(message.recipient).partition(".")[0] not in builtin
