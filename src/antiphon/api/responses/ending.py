"""How a response ends: its status, its usage, its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from antiphon.conversation import FinishReason, Usage
from antiphon.errors import AntiphonError, ConflictError, ContextError, OverloadedError, RequestError

from .event_schema import ResponseCompleted, ResponseFailed, ResponseIncomplete
from .schema import (
    IncompleteDetails,
    InputDetails,
    OutputDetails,
    ResponseError,
    ResponseUsage,
)

LastStatus = Literal["completed", "incomplete", "failed", "cancelled"]
LAST: Mapping[LastStatus, type[ResponseCompleted] | type[ResponseIncomplete] | type[ResponseFailed]] = {
    "completed": ResponseCompleted,
    "incomplete": ResponseIncomplete,
    "cancelled": ResponseIncomplete,
    "failed": ResponseFailed,
}
"""The last event of a response. Clients know none for a cancelled one: only its status differs."""


class ResponseCancelled(ConflictError):
    """A client cancelled the response; raised to those who wait for it."""

    default_code = "response_cancelled"


class Ending(msgspec.Struct, frozen=True):
    status: LastStatus
    details: IncompleteDetails | None = None
    error: ResponseError | None = None


_CUT = Ending("incomplete", IncompleteDetails("max_output_tokens"))
_LOST = Ending("failed", error=ResponseError("server_error", "The answer was not finished."))
ENDINGS: Mapping[FinishReason, Ending] = {
    FinishReason.STOP_EOS: Ending("completed"),
    FinishReason.STOP_SEQUENCE: Ending("completed"),
    FinishReason.TOOL_CALL: Ending("completed"),
    FinishReason.LENGTH_OUTPUT: _CUT,
    FinishReason.LENGTH_CONTEXT: _CUT,
    FinishReason.CONTENT_FILTER: Ending("incomplete", IncompleteDetails("content_filter")),
    FinishReason.CANCELLED: Ending("cancelled"),
    FinishReason.ERROR: _LOST,
    FinishReason.TIMEOUT: _LOST,
}
"""Resolution X-02, in this API's words."""


def response_usage(usage: Usage) -> ResponseUsage:
    """Cached tokens are 0 where the engine does not count them."""
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputDetails(usage.cached_tokens or 0),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputDetails(usage.reasoning_tokens),
        total_tokens=usage.total_tokens,
    )


def response_error(error: AntiphonError) -> ResponseError:
    """The error under the code that clients act on."""
    return ResponseError(_code(error), message_of(error))


def message_of(error: AntiphonError) -> str:
    return f"{error.message} {error.hint}" if error.hint else error.message


def _code(error: AntiphonError) -> str:
    match error:
        case ContextError():
            return "context_length_exceeded"
        case OverloadedError():
            return "rate_limit_exceeded"
        case RequestError():
            return "invalid_prompt"
        case _:
            return "server_error"
