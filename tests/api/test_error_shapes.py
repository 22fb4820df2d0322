"""What an error is called where its client goes by the name, of each status."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.api.errors import anthropic_error, databricks_error, mindie_error, mindie_event
from antiphon.http.errors import ApiError

NAMES = {
    400: ("INVALID_PARAMETER_VALUE", "Internal Server Error", "invalid_request_error"),
    401: ("UNAUTHENTICATED", "Internal Server Error", "authentication_error"),
    402: ("INTERNAL_ERROR", "Internal Server Error", "billing_error"),
    403: ("PERMISSION_DENIED", "Internal Server Error", "permission_error"),
    404: ("RESOURCE_DOES_NOT_EXIST", "Model Not Found", "not_found_error"),
    405: ("BAD_REQUEST", "Internal Server Error", "invalid_request_error"),
    408: ("DEADLINE_EXCEEDED", "Request Timeout", "timeout_error"),
    409: ("RESOURCE_CONFLICT", "Internal Server Error", "invalid_request_error"),
    413: ("BAD_REQUEST", "Internal Server Error", "request_too_large"),
    415: ("BAD_REQUEST", "Internal Server Error", "invalid_request_error"),
    422: ("INTERNAL_ERROR", "Input Validation Error", "invalid_request_error"),
    424: ("INTERNAL_ERROR", "Inference Error", "invalid_request_error"),
    429: ("REQUEST_LIMIT_EXCEEDED", "Server Overloaded", "rate_limit_error"),
    500: ("INTERNAL_ERROR", "Internal Server Error", "api_error"),
    503: ("TEMPORARILY_UNAVAILABLE", "Server Not Ready", "overloaded_error"),
    504: ("INTERNAL_ERROR", "Internal Server Error", "timeout_error"),
    529: ("INTERNAL_ERROR", "Internal Server Error", "overloaded_error"),
}


@pytest.mark.parametrize("status", NAMES)
def test_a_status_has_the_name_that_clients_of_each_kind_know(status: int) -> None:
    error = ApiError(status=status, type="type", code="code", message="Why.", param="a", request_id="req_1")
    databricks, mindie, anthropic = NAMES[status]
    assert msgspec.to_builtins(databricks_error(error)) == {"error_code": databricks, "message": "a: Why."}
    for shape in (mindie_error, mindie_event):
        said = msgspec.to_builtins(shape(error))
        assert (said["err_msg"], said["error"], said["error_type"]) == ("a: Why.", "a: Why.", mindie)
    assert msgspec.to_builtins(anthropic_error(error)) == {
        "type": "error",
        "error": {"type": anthropic, "message": "a: Why.", "details": {"error_code": "code"}},
        "request_id": "req_1",
    }
