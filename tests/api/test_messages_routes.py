"""The routes of Messages beside the answer itself: models, names, errors in this API's words, signs of life."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest
from anthropic.types import ErrorResponse, ModelInfo

from antiphon.api import create_app
from antiphon.catalog import Catalog
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Limits, ModelEntry
from antiphon.config.models import goes_by
from antiphon.engines import ScriptedEngine, Step
from antiphon.errors import EngineError, EngineLostError, OverloadedError
from antiphon.generation import Model
from antiphon.http.gate.keys import new_key
from kit.api import END, Got, exchange, ids, model, post, request, scripted, served, token_bytes
from kit.breaking import Breaking
from kit.messages import USER, WEATHER, Fields, events_of, message
from kit.obedient import catalog
from kit.waiting import until

PLACES = ("/v1", "", "/v1/v1", "/anthropic/v1", "/anthropic")
VERSION = "2023-06-01"
GOOD: Fields = {"model": "small", "max_tokens": 9, "messages": [USER]}


base = served(lambda: create_app(catalog()))


def error_of(got: Got, status: int) -> Any:
    """The error, which the client's own type takes strictly (it has none for a body that is too large)."""
    assert got.status == status, got.body
    if status != 413:
        ErrorResponse.model_validate(got.json, strict=True)
    assert got.json["request_id"] == got.headers["request-id"] == got.headers["x-request-id"]
    return got.json["error"]


@pytest.mark.parametrize("place", PLACES)
def test_it_is_at_each_of_its_places_whatever_the_query(base: str, place: str) -> None:
    got = post(base, f"{place}/messages?beta=true", **GOOD)
    assert (got.status, got.headers["request-id"]) == (200, got.headers["x-request-id"])
    counted = post(base, f"{place}/messages/count_tokens?beta=true", **GOOD)
    assert counted.json == {"input_tokens": got.json["usage"]["input_tokens"]}


def test_the_tokens_of_a_request_are_those_of_its_message(base: str) -> None:
    fields: Fields = {
        "model": "oss", "system": "Be kind.", "tools": [WEATHER], "thinking": {"type": "adaptive"},
        "messages": [USER, {"role": "assistant", "content": "Hello."}, USER],
    }  # fmt: skip
    used = message(base, **fields).json["usage"]
    assert post(base, "/v1/messages/count_tokens", **fields).json == {"input_tokens": used["input_tokens"]}


def test_claude_code_finds_that_somebody_is_there(base: str) -> None:
    got = request(base, "HEAD", "/")
    assert (got.status, got.body) == (200, b"")


def test_models_are_in_the_words_of_who_asks(base: str) -> None:
    assert request(base, "GET", "/v1/models").json["object"] == "list"
    for path in ("/v1/models", "/anthropic/v1/models"):
        listed = request(base, "GET", path, anthropic_version=VERSION).json
        assert path == "/v1/models" or request(base, "GET", path).json == listed
        assert [one["id"] for one in listed["data"]] == ["small", "oss", "count"]
        assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("small", "count", False)
        for one in listed["data"]:
            ModelInfo.model_validate({"capabilities": None, **one})
        single = request(base, "GET", f"{path}/oss", anthropic_version=VERSION).json
        assert single == listed["data"][1]
        assert single["max_input_tokens"] == 65536


def test_models_come_in_pages(base: str) -> None:
    def page(query: str) -> tuple[list[str], bool]:
        got = request(base, "GET", f"/anthropic/v1/models?{query}").json
        return [one["id"] for one in got["data"]], got["has_more"]

    assert page("limit=2") == (["small", "oss"], True)
    assert page("limit=2&after_id=oss") == (["count"], False)
    assert page("limit=1&before_id=count") == (["oss"], True)
    assert page("after_id=count") == ([], False)


def test_errors_are_in_its_words_below_its_places_and_in_openai_s_elsewhere(base: str) -> None:
    for place in ("/v1/messages", "/anthropic/v1/messages"):
        assert error_of(request(base, "GET", place), 405)["type"] == "invalid_request_error"
        unknown = error_of(request(base, "POST", f"{place}/nothing/here", b"{}"), 404)
        assert unknown == {
            "type": "not_found_error",
            "message": f"Unknown URL: POST {place}/nothing/here.",
            "details": {"error_code": "unknown_url"},
        }
        assert error_of(post(base, place, **{**GOOD, "model": "none"}), 404)["type"] == "not_found_error"
        missing = error_of(post(base, place, model="small", messages=[USER]), 400)
        assert (missing["type"], missing["message"].partition(":")[0]) == ("invalid_request_error", "max_tokens")
    assert error_of(request(base, "GET", "/v1/models/none", anthropic_version=VERSION), 404)
    for path in ("/v1/models/none", "/v1/messagesx"):
        assert request(base, "GET", path).error["code"] in ("model_not_found", "unknown_url")


def test_a_model_of_anthropic_s_that_is_not_here_says_what_to_set(base: str) -> None:
    said = error_of(post(base, "/v1/messages", **{**GOOD, "model": "claude-opus-4"}), 404)["message"]
    assert "ANTHROPIC_MODEL" in said


async def test_a_key_is_needed_and_its_lack_is_told_in_its_words() -> None:
    secret, key = new_key("a")
    application = create_app(StaticCatalog({"small": model(scripted(ids("Hi", END)))}), keys=[key])
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/anthropic/v1/messages"):
        refused = await exchange(application, path, GOOD, [])
        assert error_of(refused, 401)["type"] == "authentication_error"
        assert (await exchange(application, path, GOOD, [], key=secret)).status == 200


async def test_a_body_that_is_too_large_is_told_in_its_words() -> None:
    limits = Limits(max_body=2000)
    application = create_app(StaticCatalog({"small": model(scripted(ids("Hi", END)))}), limits=limits)
    big = {**GOOD, "messages": [{"role": "user", "content": "x" * 3000}]}
    assert error_of(await exchange(application, "/v1/messages", big, []), 413)["type"] == "request_too_large"


FAULTS = [
    (OverloadedError("busy", retry_after=3.0), 503, "overloaded_error"),
    (EngineLostError("gone"), 503, "overloaded_error"),
    (EngineError("broken"), 500, "api_error"),
]


@pytest.mark.parametrize(("error", "status", "kind"), FAULTS, ids=[kind for _, _, kind in FAULTS[:1]] + ["lost", "api"])
async def test_what_fails_before_the_first_token_is_a_status_and_afterwards_an_event(
    error: EngineError, status: int, kind: str
) -> None:
    for stream in (False, True):
        application = create_app(StaticCatalog({"small": model(Breaking([], error))}))
        got = await exchange(application, "/v1/messages", {**GOOD, "stream": stream}, [])
        assert error_of(got, status)["type"] == kind
        assert "retry-after" in got.headers or status == 500
    application = create_app(StaticCatalog({"small": model(Breaking(ids("abc"), error))}))
    got = await exchange(application, "/v1/messages", {**GOOD, "stream": True}, [])
    events = events_of(got)
    assert [event["type"] for event in events[:2]] == ["message_start", "content_block_start"]
    assert (events[-1]["error"]["type"], events[-1]["request_id"]) == (kind, got.headers["request-id"])
    assert "message_stop" not in [event["type"] for event in events]


class Silent(ScriptedEngine):
    """Waits before the first token, and before the last."""

    def __init__(self) -> None:
        super().__init__(ids("ab", END), token_bytes=token_bytes)
        self.turns = [asyncio.Event(), asyncio.Event()]

    async def generate(self, *args: Any, **options: Any) -> AsyncGenerator[Step, None]:
        for turn, step in zip(self.turns, (Step(tuple(ids("a"))), Step(tuple(ids("b", END)))), strict=True):
            await turn.wait()
            yield step


async def test_a_silent_stream_begins_and_gives_signs_of_life() -> None:
    engine = Silent()
    limits = Limits(keep_alive=0.02)
    application = create_app(StaticCatalog({"small": model(engine)}), limits=limits)
    answered: Any = []
    asked = asyncio.ensure_future(exchange(application, "/v1/messages", {**GOOD, "stream": True}, answered))

    def pings() -> int:
        return b"".join(part.get("body", b"") for part in answered).count(b"event: ping")

    def reached(count: int) -> bool:
        return pings() >= count

    for turn in engine.turns:
        enough = pings() + 2
        await until(partial(reached, enough))
        assert answered[1]["body"].startswith(b"event: message_start")
        turn.set()
    got = await asked
    events = events_of(got)
    assert [event["type"] for event in events].count("message_start") == 1
    assert "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta") == "ab"


def aliased(*aliases: str) -> Catalog:
    """A model under several names, beside another."""
    made = model(scripted(ids("Hi", END)))

    async def load(name: str, entry: ModelEntry) -> Model:
        return made

    entries = {"small": ModelEntry(aliases=aliases), "other": ModelEntry(aliases=("claude-haiku-*",))}
    return Catalog(entries, listed=["small", "other"], load=load)


async def test_a_model_goes_by_its_aliases_and_by_their_patterns() -> None:
    application = create_app(aliased("claude-*", "claude-sonnet-5"))
    for name in ("claude-opus-4-1", "claude-sonnet-5", "claude-", "small", "claude-haiku-4"):
        got = await exchange(application, "/v1/messages", {**GOOD, "model": name}, [])
        assert (got.status, got.json["model"]) == (200, name)
        assert got.headers["openai-model"] == "small"
    assert (await exchange(application, "/v1/messages", {**GOOD, "model": "Claude-x"}, [])).status == 404
    one = await exchange(application, "/anthropic/v1/models/claude-opus-4-1", {}, [], method="GET")
    assert (one.json["id"], one.json["display_name"]) == ("claude-opus-4-1", "claude-opus-4-1 (small)")
    other = await exchange(application, "/anthropic/v1/models/claude-haiku-4", {}, [], method="GET")
    assert other.json["display_name"] == "claude-haiku-4 (other)"
    listed = await exchange(application, "/anthropic/v1/models", {}, [], method="GET")
    assert [model["id"] for model in listed.json["data"]] == ["small", "other", "claude-sonnet-5"]


@pytest.mark.parametrize(
    ("alias", "name", "goes"),
    [
        ("a", "a", True), ("a", "ab", False), ("a*", "a", True), ("a*", "ab", True), ("*", "anything", True),
        ("*b", "ab", True), ("*b", "ba", False), ("a*c*e", "abcde", True), ("a*c*e", "ace", True),
        ("a*c*e", "aec", False), ("ab*bc", "abc", False), ("a**b", "ab", True), ("a?c", "abc", False),
        ("*" * 200 + "b", "a" * 10_000, False),
    ],
)  # fmt: skip
def test_a_pattern_stands_for_names(alias: str, name: str, goes: bool) -> None:
    assert goes_by(alias, name) is goes


def test_what_is_harmless_changes_nothing(base: str) -> None:
    plain = message(base, model="small").json
    more: Fields = {
        "metadata": {"user_id": json.dumps({"session_id": "x"})}, "service_tier": "auto", "speed": "standard",
        "inference_geo": "global", "fallbacks": [],
        "cache_control": {"type": "ephemeral", "ttl": "1h"}, "container": None, "mcp_servers": [],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}, "citations": None},
        ]}],
    }  # fmt: skip
    got = message(base, model="small", **more)
    assert got.json["content"] == plain["content"]
    assert got.json["usage"] == plain["usage"]
    assert "x-antiphon-ignored" not in got.headers
    for name, value in {"a_field_of_next_month": 1, "speed": "fast", "fallbacks": [{"model": "m"}]}.items():
        told = message(base, model="small", **{name: value})
        assert told.json["content"] == plain["content"]
        assert told.headers["x-antiphon-ignored"] == name
    refused = message(base, model="small", inference_geo="eu")
    assert refused.status == 400
    assert "inference_geo" in refused.body.decode()
