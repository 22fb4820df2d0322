"""Whatever is wrong with a request, the answer is a 4xx in OpenAI's shape, at once, and the server goes on."""

from __future__ import annotations

import time

import pytest
from anthropic.types import ErrorResponse as MessagesErrorResponse

from kit.api import chat, request, served
from kit.bad_messages import bad_messages
from kit.bad_requests import Bad, bad_requests
from kit.obliging import chatting_and_embedding

ALL = [*bad_requests(), *bad_messages()]
QUICK = 30.0
"""Seconds: far more than any of them takes, far less than a server that hangs."""


base = served(lambda: chatting_and_embedding())


@pytest.mark.parametrize("bad", ALL, ids=[f"{bad.method} {bad.path} {bad.what}"[:90] for bad in ALL])
def test_a_bad_request_is_refused_in_openai_s_words_at_once(base: str, bad: Bad) -> None:
    begun = time.monotonic()
    got = request(base, bad.method, bad.path, bad.body, **bad.headers)
    assert time.monotonic() - begun < QUICK
    assert 400 <= got.status < 500, got.body[:500]
    assert len(got.body) < 2000
    assert b"Traceback" not in got.body
    if bad.path.startswith("/serving-endpoints/"):
        assert got.json.keys() >= {"error_code", "message"}  # Databricks' own words
        return
    if bad.path == "/api" or bad.path.startswith("/api/"):
        assert got.json.keys() == {"error"}  # Ollama's own sentence
        assert (bad.param or "") in got.json["error"]
        return
    if bad.path.startswith(("/v1/messages", "/anthropic/")):
        refused = MessagesErrorResponse.model_validate(got.json)
        assert refused.error.type in ("invalid_request_error", "not_found_error", "request_too_large")
        assert refused.error.message
        assert refused.request_id == got.headers["request-id"]
        assert bad.param is None or bad.param in refused.error.message, got.body
        return
    assert got.error.keys() == {"message", "type", "param", "code"}
    assert all(got.error[name] for name in ("message", "type", "code"))
    assert bad.code in (None, got.error["code"])
    if bad.param is not None:
        assert (got.error["param"], got.error["type"]) == (bad.param, "invalid_request_error"), got.body


def test_after_all_of_them_a_good_request_is_answered(base: str) -> None:
    assert chat(base).json["choices"][0]["message"]["content"] == "Hello!"
    assert request(base, "GET", "/health").status == 200
