"""Batches of messages ⇄ batches as they are stored: lines of a file, and the files that they write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from antiphon.api.batches.schema import ENDED, PREFIX, Batch, OutputLine
from antiphon.structs import ready
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

# Batches of messages as Anthropic's clients see them: requests, the batch, and the lines of its results.


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


ENDPOINT = "/v1/messages"
NAMED = "msgbatch_"
"""How the ids of batches begin for clients of this API."""
USUAL, MOST = 20, 1000
_CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STATUSES: Mapping[str, Literal["in_progress", "canceling"]] = {"cancelling": "canceling"}
_ENDS = ("completed_at", "failed_at", "expired_at", "cancelled_at")
_NOT_RUN: Mapping[str, MessageCanceled | MessageExpired] = {
    "batch_cancelled": MessageCanceled(),
    "batch_expired": MessageExpired(),
}


class _Streamed(msgspec.Struct, frozen=True):
    stream: bool | None = None


def lines_of(requests: Sequence[BatchedMessage], *, most: int) -> Iterator[bytes]:
    """The lines of the file that a batch reads. Raises `RequestError` at the request that cannot be one."""
    if not 0 < len(requests) <= most:
        raise refused("requests", f"there are {len(requests)} requests; 1 to {most} are possible.")
    taken: set[str] = set()
    for i, request in enumerate(requests):
        path = f"requests[{i}]"
        if not _CUSTOM_ID.fullmatch(request.custom_id):
            raise refused(f"{path}.custom_id", "must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -.")
        if request.custom_id in taken:
            raise refused(f"{path}.custom_id", f"another request has the custom_id {request.custom_id!r}.")
        taken.add(request.custom_id)
        yield _line(request, f"{path}.params")


def _line(request: BatchedMessage, path: str) -> bytes:
    body = bytes(request.params).replace(b"\n", b" ").replace(b"\r", b" ")  # Blanks between tokens, as JSON has it.
    if not body.startswith(b"{"):
        raise refused(path, "must be an object.", code="invalid_type")
    try:
        streamed = msgspec.json.decode(body, type=ready(_Streamed)).stream
    except (msgspec.DecodeError, RecursionError):
        streamed = None  # Of another type, which the answer to the request says.
    if streamed:
        raise refused(f"{path}.stream", "is not possible in a batch.")
    line = {"custom_id": request.custom_id, "method": "POST", "url": ENDPOINT, "body": msgspec.Raw(body)}
    return encode(line) + b"\n"


def batch_id(id: str) -> str:
    """The id under which a batch is stored."""
    return PREFIX + id.removeprefix(NAMED) if id.startswith(NAMED) else id


def message_batch(batch: Batch, *, total: int, not_run: int) -> MessageBatch:
    """The batch of ``total`` requests, of which ``not_run`` had no answer when it ended before them."""
    ended = batch.status in ENDED
    id = NAMED + batch.id.removeprefix(PREFIX)
    return MessageBatch(
        id=id,
        processing_status="ended" if ended else _STATUSES.get(batch.status, "in_progress"),
        request_counts=_counts(batch, total, not_run) if ended else MessageBatchCounts(processing=total),
        created_at=_time(batch.created_at),
        expires_at=_time(batch.expires_at),
        ended_at=next((_time(at) for name in _ENDS if (at := getattr(batch, name)) is not None), None),
        cancel_initiated_at=None if batch.cancelling_at is None else _time(batch.cancelling_at),
        results_url=f"{ENDPOINT}/batches/{id}/results" if ended else None,
    )


def _counts(batch: Batch, total: int, not_run: int) -> MessageBatchCounts:
    succeeded = batch.request_counts.completed
    return MessageBatchCounts(
        succeeded=succeeded,
        errored=total - succeeded - not_run,
        canceled=not_run if batch.status == "cancelled" else 0,
        expired=not_run if batch.status == "expired" else 0,
    )


def result_of(line: OutputLine) -> MessageResult:
    """The result that a line of an output file or an error file is."""
    if line.response is None:
        not_run = _NOT_RUN.get(line.error.code if line.error else "", MessageCanceled())
        return MessageResult(custom_id=line.custom_id, result=not_run)
    body, ok = line.response.body, line.response.status == 200
    return MessageResult(custom_id=line.custom_id, result=MessageSucceeded(body) if ok else MessageErrored(body))


def page_of_batches(
    ids: Sequence[str],
    query: Mapping[str, str],
    *,
    id_of: Callable[[str], str] = batch_id,
    what: str = "batch",
) -> tuple[list[str], int, bool]:
    """The ids from which a page is filled, its size, and whether they come the other way round (``before_id``).

    ``id_of`` makes one of ``ids`` of a client's, for ``what`` the page lists. Raises `RequestError`.
    """
    given = query.get("limit", str(USUAL))
    if not (given.isascii() and given.isdecimal() and len(given) < 5 and 1 <= int(given) <= MOST):
        raise refused("limit", f"must be a number from 1 to {MOST}.")
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None and before is not None:
        raise refused("before_id", "cannot be together with after_id.")
    name, mark = ("after_id", after) if before is None else ("before_id", before)
    place = id_of(mark) if mark is not None else None
    if place is not None and place not in ids:
        raise refused(name, f"there is no {what} {(mark or '')[:80]!r}.")
    newest = sorted(ids, reverse=True)
    if place is None:
        return newest, int(given), False
    if before is not None:
        return sorted(id for id in ids if id > place), int(given), True
    return [id for id in newest if id < place], int(given), False


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
