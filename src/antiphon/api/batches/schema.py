"""Files and batches as OpenAI's clients see them, and the lines of a batch's files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from mimetypes import guess_type
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from antiphon.api.responses.schema import InputDetails, OutputDetails, ResponseUsage
from antiphon.store.files import PART, StoredFile, new_id
from antiphon.store.files import PREFIX as FILE_PREFIX

WINDOW = "24h"
"""The only window that there is."""
WINDOW_SECONDS = 24 * 3600.0

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]  # fmt: skip
ENDED = frozenset({"failed", "completed", "expired", "cancelled"})
Purpose = Literal["batch", "user_data", "vision"]
"""Purposes for which a file may be uploaded."""
BYTES = "application/octet-stream"
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


class MessagesFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as Anthropic's clients see it; its type is told by its name."""

    id: str
    type: Literal["file"] = "file"
    filename: str
    mime_type: str
    size_bytes: int
    created_at: datetime
    expires_at: datetime
    downloadable: bool = True


class MessagesFileList(msgspec.Struct, frozen=True, kw_only=True):
    """A page. ``next_page`` is what newer clients send for the next, as ``page``; older ones send ``after_id``."""

    data: list[MessagesFile]
    has_more: bool
    first_id: str | None
    last_id: str | None
    next_page: str | None


class DeletedMessagesFile(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: Literal["file_deleted"] = "file_deleted"


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
    """The endpoint's answer."""

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


# A batch as it is stored, and each step that it takes.

PREFIX = "batch_"

TIMES: dict[Status, str] = {
    "in_progress": "in_progress_at",
    "finalizing": "finalizing_at",
    "completed": "completed_at",
    "failed": "failed_at",
    "expired": "expired_at",
    "cancelling": "cancelling_at",
    "cancelled": "cancelled_at",
}
"""The field that says when a batch got into a status."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a batch writes: its parts, the last of which has ``filled`` bytes. Not there before the batch ended.

    ``part`` is the number of the last.
    """

    id: str
    bytes: int = 0
    part: int = 0
    filled: int = 0

    def with_lines(self, size: int) -> Written:
        """With lines of ``size`` bytes in the part that `at` gives."""
        at = self.at
        filled = size if at.part > self.part else self.filled + size
        return replace(at, bytes=self.bytes + size, filled=filled)

    @property
    def at(self) -> Written:
        """The file with the part into which the next line goes as its last."""
        return self if self.filled < PART else replace(self, part=self.part + 1, filled=0)

    @property
    def parts(self) -> int:
        return self.part + 1 if self.bytes else 0


class BatchState(msgspec.Struct, frozen=True, kw_only=True):
    """``done`` has a bit for each line of the input that is in one of the files, the first line's the lowest.

    It is written in one transaction with the line, so that each line is in a file once, whatever happens.
    """

    batch: Batch
    input: StoredFile
    output: Written
    error: Written
    output_lifetime: float | None = None
    done: bytes = b""

    @classmethod
    def of(cls, request: BatchCreate, input: StoredFile, *, now: float) -> BatchState:
        """A batch that was requested at the Unix time ``now``; it has the ids of the files that it may write."""
        after = request.output_expires_after
        batch = Batch(
            id=new_id(PREFIX, now),
            endpoint=request.endpoint,
            input_file_id=input.id,
            status="validating",
            created_at=int(now),
            expires_at=int(now + WINDOW_SECONDS),
            metadata=request.metadata,
        )
        lifetime = float(after.seconds) if after else None
        output, error = (Written(id=new_id(FILE_PREFIX, now)) for _ in range(2))
        return cls(batch=batch, input=input, output=output, error=error, output_lifetime=lifetime)

    def is_done(self, number: int) -> bool:
        """Whether the line of this number, from 1, is in a file."""
        return bool(self.done[(number - 1) // 8] >> (number - 1) % 8 & 1)

    def at(self, status: Status, now: float) -> BatchState:
        """The batch in its next status."""
        return replace(self, batch=replace(self.batch, status=status, **{TIMES[status]: int(now)}))

    def begun(self, total: int, model: str | None, now: float) -> BatchState:
        """Its input is valid and has ``total`` lines; one that was cancelled before does not run them."""
        counted = replace(self.batch, request_counts=RequestCounts(total=total), model=model)
        state = replace(self, batch=counted, done=bytes((total + 7) // 8))
        return state if state.batch.status == "cancelling" else state.at("in_progress", now)

    def refused(self, faults: Sequence[LineFault], now: float) -> BatchState:
        counted = replace(self.batch, errors=LineFaults(data=list(faults)))
        return replace(self, batch=counted).at("failed", now)

    def with_answer(self, number: int, size: int, *, ok: bool, usage: ResponseUsage) -> BatchState:
        """A line was answered, and ``size`` bytes of it go to the output file if ``ok``, else to the error file."""
        used = replace(self.batch, usage=_sum(self.batch.usage, usage))
        state = replace(self, batch=used)
        return state._with_lines([number], size, ok=ok)

    def without_answers(self, numbers: Sequence[int], size: int) -> BatchState:
        """These lines were not run; their lines in the error file have ``size`` bytes together."""
        return self._with_lines(numbers, size, ok=False)

    def _with_lines(self, numbers: Sequence[int], size: int, *, ok: bool) -> BatchState:
        counts = self.batch.request_counts
        if ok:
            counts = replace(counts, completed=counts.completed + len(numbers))
            state = replace(self, output=self.output.with_lines(size))
        else:
            counts = replace(counts, failed=counts.failed + len(numbers))
            state = replace(self, error=self.error.with_lines(size))
        batch = replace(self.batch, request_counts=counts)
        return replace(state, batch=batch, done=_with_bits(self.done, numbers))

    def ended(self, status: Status, now: float) -> BatchState:
        """Its files are there, as far as anything was written."""
        files = replace(
            self.batch,
            output_file_id=self.output.id if self.output.bytes else None,
            error_file_id=self.error.id if self.error.bytes else None,
        )
        return replace(self, batch=files, done=b"").at(status, now)


def _with_bits(done: bytes, numbers: Sequence[int]) -> bytes:
    bits = bytearray(done)
    for number in numbers:
        bits[(number - 1) // 8] |= 1 << (number - 1) % 8
    return bytes(bits)


def _sum(one: ResponseUsage, other: ResponseUsage) -> ResponseUsage:
    cached = one.input_tokens_details.cached_tokens + other.input_tokens_details.cached_tokens
    reasoning = one.output_tokens_details.reasoning_tokens + other.output_tokens_details.reasoning_tokens
    return ResponseUsage(
        input_tokens=one.input_tokens + other.input_tokens,
        input_tokens_details=InputDetails(cached),
        output_tokens=one.output_tokens + other.output_tokens,
        output_tokens_details=OutputDetails(reasoning),
        total_tokens=one.total_tokens + other.total_tokens,
    )


def messages_file(file: StoredFile) -> MessagesFile:
    """The file as its owner sees it who is a client of Anthropic's API."""
    created, expires = (datetime.fromtimestamp(int(at), UTC) for at in (file.created, file.expires))
    return MessagesFile(
        id=file.id,
        filename=file.filename,
        mime_type=guess_type(file.filename)[0] or BYTES,
        size_bytes=file.bytes,
        created_at=created,
        expires_at=expires,
    )


def described(file: StoredFile) -> File:
    """The file as its owner sees it."""
    return File(
        id=file.id,
        bytes=file.bytes,
        created_at=int(file.created),
        expires_at=int(file.expires),
        filename=file.filename,
        purpose=file.purpose,
    )
