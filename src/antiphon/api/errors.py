"""How single APIs write an error. Their words for one go by its HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from antiphon.conversation import FinishReason
from antiphon.http.errors import OPENAI_ERRORS, ApiError, ErrorShape
from antiphon.wire.dialect import Dialect

from .dialects.tables import MINDIE_FINISH

# Anthropic's JSON of an error: the body of an answer, and the last event of a stream that broke.


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
"""Types by status; any other 4xx is an ``invalid_request_error``, any other 5xx an ``api_error``."""


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
"""Errors of the management API, which answers 404 instead of 405 for the same reason."""

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
