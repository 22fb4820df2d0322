"""How an error is answered: the status of its code, the type of its class. Its shape writes the body."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from antiphon.errors import (
    AccessError,
    AntiphonError,
    ConflictError,
    EngineError,
    EngineLostError,
    FormatError,
    ModelError,
    NotFoundError,
    OverloadedError,
    RequestError,
    StoreError,
    TemplateError,
    VisibilityError,
)
from antiphon.errors.codes import CODES
from antiphon.wire.errors import ErrorBody, ErrorDetail
from antiphon.wire.json import encode
from antiphon.wire.writer import event

# How errors are written: the shape of a body, and which shape is where; OpenAI's, where an API has no own.


class ApiError(msgspec.Struct, frozen=True, kw_only=True):
    """The one error from which every shape is written (resolution X-20)."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    request_id: str = ""

    @property
    def placed(self) -> str:
        """The message with the field at fault, for bodies that have no place of their own for it."""
        return f"{self.param}: {self.message}" if self.param and self.param not in self.message else self.message


def openai_error(error: ApiError) -> object:
    return ErrorBody(ErrorDetail(message=error.message, type=error.type, param=error.param, code=error.code))


class ErrorShape(msgspec.Struct, frozen=True, kw_only=True):
    """``body`` makes what is sent as JSON, ``event`` the last event of a stream that broke (None: the body too).

    ``statuses``: where an error has another status than OpenAI's. ``id_header``: one more header that has the id of
    the request, on every answer.
    """

    body: Callable[[ApiError], object] = openai_error
    event: Callable[[ApiError], object] | None = None
    statuses: Mapping[int, int] = msgspec.field(default_factory=dict)
    id_header: str | None = None


OPENAI_ERRORS = ErrorShape()


class ErrorShapes:
    """Which shape errors have where: ``usual``, but below each of ``places`` (paths), the longest that fits.

    Below the path of each of ``marked`` (header, path) a request with the header has another.
    """

    def __init__(
        self,
        usual: ErrorShape = OPENAI_ERRORS,
        places: Mapping[str, ErrorShape] = MappingProxyType({}),
        marked: Mapping[tuple[str, str], ErrorShape] = MappingProxyType({}),
    ) -> None:
        self._usual = usual
        longest_first = sorted(places.items(), key=lambda one: len(one[0]), reverse=True)
        self._places = [(place, f"{place}/", shape) for place, shape in longest_first]
        self._marked = [(header, place, f"{place}/", shape) for (header, place), shape in marked.items()]

    def at(self, path: str, headers: Mapping[str, str]) -> ErrorShape:
        """The shape of errors at that path, for a request with those headers."""
        for header, place, below, shape in self._marked:
            if (path == place or path.startswith(below)) and header in headers:
                return shape
        found = (shape for place, below, shape in self._places if path == place or path.startswith(below))
        return next(found, self._usual)


class ClientGone(Exception):
    """The client hung up; there is nobody to answer. nginx's 499 in the log."""


class ErrorAnswer(msgspec.Struct, frozen=True):
    """How an error is answered. ``retry``: sent to clients as whether to try again; None: not sent."""

    status: int
    type: str
    retry: bool | None = None


TYPES = {
    "invalid_api_key": "authentication_error",
    "model_not_found": "invalid_request_error",
    "model_not_here": "invalid_request_error",
    "body_timeout": "invalid_request_error",
    "head_timeout": "invalid_request_error",
    "rate_limit_exceeded": "rate_limit_error",
    "first_token_timeout": "server_error",
    "turn_timeout": "server_error",
    "draining": "engine_overloaded",
}
"""Codes whose ``type`` is not their class's."""

BY_CLASS: dict[type[AntiphonError], ErrorAnswer] = {
    VisibilityError: ErrorAnswer(403, "permission_error"),
    AccessError: ErrorAnswer(403, "permission_error"),
    ConflictError: ErrorAnswer(409, "invalid_request_error"),
    NotFoundError: ErrorAnswer(404, "invalid_request_error"),
    RequestError: ErrorAnswer(400, "invalid_request_error"),
    FormatError: ErrorAnswer(400, "invalid_request_error"),
    TemplateError: ErrorAnswer(400, "invalid_request_error"),
    OverloadedError: ErrorAnswer(503, "engine_overloaded"),
    EngineLostError: ErrorAnswer(503, "server_error", retry=True),
    EngineError: ErrorAnswer(500, "server_error"),
    ModelError: ErrorAnswer(500, "server_error", retry=False),
    StoreError: ErrorAnswer(503, "server_error", retry=False),
    AntiphonError: ErrorAnswer(500, "server_error", retry=False),
}
"""The nearest class in an error's family decides."""

RETRY_AFTER_LOST = 1.0
"""Seconds; a lost engine is started again at once."""


def answer_to(error: AntiphonError) -> ErrorAnswer:
    """The status of the error's code where `CODES` has one; the rest is its class's unless its code says more."""
    of_class = next(BY_CLASS[family] for family in type(error).__mro__ if family in BY_CLASS)
    row = CODES.get(error.code)
    status = row.status if row is not None and row.status is not None else of_class.status
    if error.code in TYPES:
        return ErrorAnswer(status, TYPES[error.code])
    return replace(of_class, status=status)


def api_error(error: AntiphonError, shape: ErrorShape = OPENAI_ERRORS, *, request_id: str = "") -> ApiError:
    """The error as the client gets it. Internal errors come without details: those are for the log."""
    answer = answer_to(error)
    return ApiError(
        status=shape.statuses.get(answer.status, answer.status),
        type=answer.type,
        code=error.code,
        message=sentences(error.message, error.hint),
        param=error.param if isinstance(error, RequestError) else None,
        request_id=request_id,
    )


def sentences(message: str, hint: str | None) -> str:
    """Joins a message and its hint, as sentences."""
    if hint is None:
        return message
    return f"{message} {hint}" if message.endswith((".", "!", "?")) else f"{message}. {hint}"


_PATH = re.compile(r"(?<![\w:/.~-])(?:[A-Za-z]:[\\/]|~?/|\.{1,2}/)(?:[^\s:;,'\"()]*/)?([^\s/:;,'\"()]*)")
"""An absolute path, or one from here or from home; not a URL."""


def without_paths(error: AntiphonError) -> AntiphonError:
    """The error with the names of files in place of their paths: where files of the server lie is nobody's business."""
    public = copy.copy(error)
    public.message = _PATH.sub(r"\1", error.message)
    public.hint = _PATH.sub(r"\1", error.hint) if error.hint else None
    return public


def error_event(error: AntiphonError, shape: ErrorShape = OPENAI_ERRORS) -> bytes:
    """The last event of a stream that broke."""
    write = shape.event or shape.body
    return event(encode(write(api_error(error, shape))))


def error_response(
    error: AntiphonError, shape: ErrorShape = OPENAI_ERRORS, *, allow: str | None = None, request_id: str = ""
) -> Response:
    """The whole answer, with ``retry-after`` where trying again later helps."""
    answer, described = answer_to(error), api_error(error, shape, request_id=request_id)
    headers: dict[str, str] = {}
    if allow is not None:
        headers["allow"] = allow
    if answer.retry is not None:
        headers["x-should-retry"] = "true" if answer.retry else "false"
    seconds = error.retry_after if isinstance(error, OverloadedError) else None
    if isinstance(error, EngineLostError):
        seconds = RETRY_AFTER_LOST
    if seconds is not None:
        headers["retry-after"] = str(max(1, round(seconds)))
        headers["retry-after-ms"] = str(round(seconds * 1000))
    if answer.status == 401:
        headers["www-authenticate"] = "Bearer"
    if answer.status in (408, 413):
        headers["connection"] = "close"
    return Response(encode(shape.body(described)), described.status, headers, "application/json")


INTERNAL = AntiphonError("The server made a mistake; it is in its log under this request's id.", code="internal_error")
"""The answer to an unforeseen error: nothing of its text, which may hold content or paths."""
