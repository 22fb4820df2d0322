"""Anthropic's JSON of an error: the body of an answer, and the last event of a stream that broke."""

from __future__ import annotations

import msgspec


class ErrorCode(msgspec.Struct, frozen=True):
    """Our own code, for programs."""

    error_code: str


class MessagesErrorDetail(msgspec.Struct, frozen=True):
    type: str
    message: str
    details: ErrorCode


class MessagesError(msgspec.Struct, frozen=True, tag="error"):
    """``request_id`` is the header ``request-id``, too."""

    error: MessagesErrorDetail
    request_id: str
