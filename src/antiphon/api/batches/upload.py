"""An upload: a multipart form with one file, read piece by piece and never whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import get_args

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from antiphon.errors import OverloadedError, RequestError
from antiphon.http.client import DISCARD
from antiphon.http.errors import ClientGone
from antiphon.structs import ready
from antiphon.wire.errors import refused

from .schema import ExpiresAfter, Purpose

PIECE = 2**20
"""Bytes of a file that are in memory at once."""
_FIELDS = ("purpose", "expires_after[anchor]", "expires_after[seconds]")
EXPIRES = "expires_in_seconds"
"""The field of Anthropic's clients for the same."""
_FIELD_BYTES = 1024
_FRAME = 64 * 2**10
"""Bytes of a form beside its file at most."""
_NAME = 255
"""Characters of a file's name at most."""


class Upload(msgspec.Struct, frozen=True):
    """A form that is read. ``lifetime`` is in seconds, None where the form does not say."""

    file: UploadFile
    size: int
    filename: str
    purpose: str
    lifetime: float | None

    async def pieces(self) -> AsyncIterator[bytes]:
        while piece := await self.file.read(PIECE):
            yield piece


@dataclass(slots=True)
class UploadLimits:
    """``most`` bytes of a file; ``left`` of them before the owner's quota is used up; ``patience`` in seconds is what
    may pass between two pieces. ``coming`` gets the size of each piece.
    """

    most: int
    left: int
    patience: float
    coming: Callable[[int], None]


@asynccontextmanager
async def read_upload(request: Request, limits: UploadLimits, *, purpose: str | None = None) -> AsyncIterator[Upload]:
    """The form of a request, whose file is in a temporary file until the block is left. Raises `RequestError`.

    ``purpose``: that of all files of Anthropic's clients, whose forms name none.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        hint = "Send content-type: multipart/form-data."
        raise RequestError("The body must be a form with a file.", code="unsupported_media_type", hint=hint)
    try:
        form = await _Form(request, limits).parse()
    except MultiPartException as error:
        raise RequestError(f"The form cannot be read: {error.message}", code="invalid_request") from None
    except ClientDisconnect:
        raise ClientGone from None
    try:
        yield _upload(form, purpose)
    finally:
        await form.close()


class _Form(MultiPartParser):
    """Reads a form as it comes. It has an end of its own: what ends without it was cut off."""

    def __init__(self, request: Request, limits: UploadLimits) -> None:
        super().__init__(
            request.headers, self._pieces(), max_files=1, max_fields=len(_FIELDS), max_part_size=_FIELD_BYTES
        )
        self._request = request
        self._limits = limits
        self._whole = False

    def on_end(self) -> None:
        self._whole = True

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        """The body. What is too much is read on for a while and thrown away, so that the answer is heard.

        Errors are raised from here, within `parse`, which then closes its files.
        """
        limits, stream = self._limits, self._request.stream()
        announced = self._request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > DISCARD * limits.most + _FRAME:
            raise _too_large(limits)
        size = 0
        while piece := await _next(stream, limits.patience):
            size += len(piece)
            limits.coming(len(piece))
            if size <= min(limits.most, limits.left) + _FRAME:
                yield piece
            elif size > DISCARD * limits.most + _FRAME:
                break
        if size > limits.most + _FRAME:
            raise _too_large(limits)
        if size > limits.left + _FRAME:
            message = f"The files of this key may have {max(0, limits.left)} bytes more."
            raise RequestError(message, code="file_quota", hint="Delete some.")
        if not self._whole:
            raise RequestError("The form is cut off.", code="invalid_request")


async def _next(stream: AsyncIterator[bytes], patience: float) -> bytes:
    """The next piece that is not empty; b"" at the end."""
    try:
        async with asyncio.timeout(patience):
            async for piece in stream:
                if piece:
                    return piece
    except TimeoutError:
        message = f"Nothing came of the body for {patience:g} seconds."
        raise OverloadedError(message, code="body_timeout") from None
    return b""


def _upload(form: FormData, purpose: str | None) -> Upload:
    fields = dict(form)
    if len(fields) < len(form.multi_items()):
        raise RequestError("A field of the form is there twice.", code="invalid_request")
    file = fields.pop("file", None)
    if not isinstance(file, UploadFile):
        raise refused("file", "it must be a file of the form.", code="missing_required_parameter")
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    for name in fields.keys() - {*(_FIELDS if purpose is None else (EXPIRES,))}:
        raise refused(name[:64], "there is no such field.", code="unknown_parameter")
    filename = file.filename or ""
    if not 0 < len(filename) <= _NAME or not filename.isprintable():
        raise refused("file", f"its name must have 1 to {_NAME} characters that can be printed.")
    return Upload(file, file.size or 0, filename, purpose or _purpose(texts), _lifetime(texts))


def _purpose(texts: dict[str, str]) -> str:
    purposes = get_args(Purpose)
    if "purpose" not in texts:
        raise refused("purpose", "it must be there.", code="missing_required_parameter")
    if texts["purpose"] not in purposes:
        raise refused("purpose", f"{texts['purpose'][:64]!r} is not possible here, only {' and '.join(purposes)}.")
    return texts["purpose"]


def _lifetime(texts: dict[str, str]) -> float | None:
    given = {
        name.partition("[")[2].rstrip("]"): value for name, value in texts.items() if name.startswith("expires_after")
    }
    if EXPIRES in texts:
        given = {"anchor": "created_at", "seconds": texts[EXPIRES]}
    if not given:
        return None
    try:
        return float(msgspec.convert(given, ready(ExpiresAfter), strict=False).seconds)
    except msgspec.ValidationError as error:
        raise refused(EXPIRES if EXPIRES in texts else "expires_after", f"{str(error)[:200]}.") from None


def _too_large(limits: UploadLimits) -> RequestError:
    return RequestError(f"The file is larger than {limits.most} bytes.", code="body_too_large")


def check_size(upload: Upload, limits: UploadLimits) -> None:
    """The file itself, without its form. Raises `RequestError`."""
    if upload.size > limits.most:
        raise _too_large(limits)
