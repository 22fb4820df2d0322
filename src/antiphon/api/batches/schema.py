"""Files and batches as OpenAI's clients see them, and the lines of a batch's files."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from antiphon.api.responses.schema import InputDetails, OutputDetails, ResponseUsage

WINDOW = "24h"
"""The only window that there is."""
WINDOW_SECONDS = 24 * 3600.0

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]  # fmt: skip
ENDED = frozenset({"failed", "completed", "expired", "cancelled"})
Purpose = Literal["batch", "user_data"]
"""What a file may be uploaded for."""
KEPT = (3600, 30 * 24 * 3600)
"""The seconds that a file may be requested to be kept: at least, at most."""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix times in seconds."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | msgspec.UnsetType = msgspec.UNSET
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class FileList(msgspec.Struct, frozen=True, kw_only=True):
    """A page; the ids are empty where it is."""

    object: Literal["list"] = "list"
    data: list[File]
    first_id: str
    last_id: str
    has_more: bool


class DeletedFile(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class ExpiresAfter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long after it was made a file is deleted."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, msgspec.Meta(ge=KEPT[0], le=KEPT[1])]


class BatchCreate(msgspec.Struct, frozen=True, kw_only=True):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_expires_after: ExpiresAfter | None = None


class LineFault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch was refused: at ``line``, counted from 1, at the field ``param`` of it."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class LineFaults(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[LineFault]


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Lines: all of them, those in the output file, those in the error file."""

    total: int = 0
    completed: int = 0
    failed: int = 0


NO_USAGE = ResponseUsage(
    input_tokens=0,
    input_tokens_details=InputDetails(0),
    output_tokens=0,
    output_tokens_details=OutputDetails(0),
    total_tokens=0,
)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix times in seconds; each is null until the batch has got there."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None = None
    errors: LineFaults | None = None
    input_file_id: str
    completion_window: str = WINDOW
    status: Status
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts = RequestCounts()
    metadata: dict[str, str] | None = None
    usage: ResponseUsage = NO_USAGE


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool


class LineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the endpoint answered."""

    status: int = msgspec.field(name="status_code")
    request_id: str
    body: msgspec.Raw


class NotRun(msgspec.Struct, frozen=True, kw_only=True):
    """Why a line was never answered."""

    code: str
    message: str


class OutputLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the output file or the error file."""

    id: str
    custom_id: str
    response: LineAnswer | None
    error: NotRun | None = None
