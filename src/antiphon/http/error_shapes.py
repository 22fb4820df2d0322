"""How each API writes an error: OpenAI's body, or that of the dialect. Their words for one go by its HTTP status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from antiphon.api.dialects.mindie import FINISH as MINDIE_FINISH
from antiphon.api.messages.errors import ErrorCode, MessagesError, MessagesErrorDetail
from antiphon.conversation import FinishReason
from antiphon.wire.dialect import Dialect
from antiphon.wire.errors import ErrorBody, ErrorDetail


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


DATABRICKS_CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    405: "BAD_REQUEST",
    408: "DEADLINE_EXCEEDED",
    409: "RESOURCE_CONFLICT",
    413: "BAD_REQUEST",
    415: "BAD_REQUEST",
    429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}

MINDIE_TYPES = {
    404: "Model Not Found",
    408: "Request Timeout",
    422: "Input Validation Error",
    424: "Inference Error",
    429: "Server Overloaded",
    503: "Server Not Ready",
}


ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Those that its clients know; any other 4xx is an ``invalid_request_error``, any other 5xx an ``api_error``."""


def anthropic_error(error: ApiError) -> object:
    usual = "invalid_request_error" if error.status < 500 else "api_error"
    kind = ANTHROPIC_TYPES.get(error.status, usual)
    return MessagesError(MessagesErrorDetail(kind, error.placed, ErrorCode(error.code)), error.request_id)


def databricks_error(error: ApiError) -> object:
    return {"error_code": DATABRICKS_CODES.get(error.status, "INTERNAL_ERROR"), "message": error.placed}


def lmdeploy_error(error: ApiError) -> object:
    return {
        "object": "error",
        "message": error.message,
        "type": error.type,
        "code": error.status,
        "param": error.param,
    }


def mindie_error(error: ApiError) -> object:
    """The answer that was not made: no output, ``stop_sequence``, and why; also under the later releases' names."""
    return _failed(error, {"message": {"role": "assistant", "content": ""}})


def mindie_event(error: ApiError) -> object:
    return _failed(error, {"delta": {}})


def _failed(error: ApiError, output: dict[str, object]) -> object:
    return {
        "choices": [{"index": 0, **output, "finish_reason": MINDIE_FINISH[FinishReason.ERROR]}],
        "err_msg": error.placed,
        "error": error.placed,
        "error_type": MINDIE_TYPES.get(error.status, "Internal Server Error"),
    }


def ollama_error(error: ApiError) -> object:
    return {"error": error.placed}


ANTHROPIC_ERRORS = ErrorShape(body=anthropic_error, id_header="request-id")
DATABRICKS_ERRORS = ErrorShape(body=databricks_error, statuses={413: 400, 415: 400})
"""A status that the provider's SDK does not know passes for a 500 there, which MLflow repeats for minutes."""
ENDPOINT_ERRORS = ErrorShape(body=databricks_error, statuses={405: 404})
"""Of the management API, for which the same holds: what cannot be done is not there."""

OLLAMA_ERRORS = ErrorShape(body=ollama_error)

OF_DIALECT: Mapping[str, ErrorShape] = MappingProxyType(
    {
        "databricks": DATABRICKS_ERRORS,
        "lmdeploy": ErrorShape(body=lmdeploy_error),
        "mindie": ErrorShape(body=mindie_error, event=mindie_event, statuses={400: 422, 413: 422, 500: 424}),
    }
)
"""By a dialect's name; the others write errors as OpenAI does."""


def error_shape(dialect: Dialect) -> ErrorShape:
    return OF_DIALECT.get(dialect.name, OPENAI_ERRORS)
