"""Events that happen while a reply is read. Streaming and not streaming are the same events, collected or not."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .message import Message


class FinishReason(StrEnum):
    """Why a turn ended (resolution X-02). Each dialect has a total map from these words to its own."""

    STOP_EOS = "stop_eos"
    STOP_SEQUENCE = "stop_sequence_match"
    TOOL_CALL = "tool_call"
    LENGTH_OUTPUT = "length_output"
    LENGTH_CONTEXT = "length_context"
    CANCELLED = "cancelled"
    ERROR = "error"
    CONTENT_FILTER = "content_filter"
    TIMEOUT = "timeout"


class TokenLogprob(msgspec.Struct, frozen=True):
    """One token's log probability (natural logarithm). ``data`` is its bytes, which need not be whole characters."""

    id: int
    data: bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one turn. ``cached_tokens`` is None where the engine does not report them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class MessageStarted(msgspec.Struct, frozen=True):
    """A message's header is known: ``message`` carries it, with no text yet."""

    message: Message


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """More text of the open message; concatenated, the deltas are its text."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class MessageEnded(msgspec.Struct, frozen=True):
    """The open message is whole: ``message`` has the same header, all its text, and how it ended."""

    message: Message


class Incident(msgspec.Struct, frozen=True):
    """Something in the model's output, or in a history, was not as the format says, and was repaired or set aside.

    ``position`` counts pieces (ids, or characters for a text reader) from the reply's start; ``text`` is what was set
    aside, so that no generated text is ever lost.
    """

    code: str
    position: int
    text: str = ""


class TurnEnded(msgspec.Struct, frozen=True):
    """The last event of every turn. ``matched`` is the stop string or control that ended it."""

    reason: FinishReason
    usage: Usage
    matched: str | None = None


ParserEvent = MessageStarted | TextDelta | MessageEnded | Incident
"""Events that a parser makes of a reply, in the order of its text."""
Event = ParserEvent | TurnEnded
"""Events of a turn: the parser's events, and one `TurnEnded` at its end."""
