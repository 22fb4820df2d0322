"""Batches of messages as Anthropic's clients see them: requests, the batch, and the lines of its results."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class BatchedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``params`` is the body of a message."""

    custom_id: str
    params: msgspec.Raw


class MessageBatchCreate(msgspec.Struct, frozen=True, kw_only=True):
    """The body of POST /v1/messages/batches."""

    requests: list[BatchedMessage]
    user_profile_id: Any = None
    workspace_id: Any = None


class MessageBatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """All requests; those of a batch that has not ended are processing."""

    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class MessageBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Times are RFC 3339; ``results_url`` is there when the batch has ended."""

    id: str
    type: Literal["message_batch"] = "message_batch"
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageBatchCounts
    created_at: str
    expires_at: str
    ended_at: str | None = None
    cancel_initiated_at: str | None = None
    archived_at: str | None = None
    results_url: str | None = None


class MessageBatchList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[MessageBatch]
    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedMessageBatch(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: Literal["message_batch_deleted"] = "message_batch_deleted"


class MessageSucceeded(msgspec.Struct, frozen=True, tag="succeeded"):
    message: msgspec.Raw


class MessageErrored(msgspec.Struct, frozen=True, tag="errored"):
    """``error`` is the whole body that the request was answered with."""

    error: msgspec.Raw


class MessageCanceled(msgspec.Struct, frozen=True, tag="canceled"):
    """It was not run."""


class MessageExpired(msgspec.Struct, frozen=True, tag="expired"):
    """It was not run."""


class MessageResult(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the results."""

    custom_id: str
    result: MessageSucceeded | MessageErrored | MessageCanceled | MessageExpired
