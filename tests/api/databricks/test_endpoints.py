"""Databricks' dialect on the invocations route, through a real socket: one address a model, the task by the body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.api.dialects import DIALECTS, databricks
from antiphon.api.dialects.tables import CHAT, NUMBERS, EndpointMode
from antiphon.api.dialects.tables import DATABRICKS_PARAMETERS as PARAMETERS
from antiphon.catalog.static import StaticCatalog
from antiphon.errors import EngineError
from antiphon.wire.dialect import Dialect
from kit.api import END, app, ids, model, request, running, scripted
from kit.breaking import Breaking
from kit.databricks import FRAME, HELLO, PATH, USER, ask, invoke, refusal
from kit.obedient import counting


@pytest.mark.spec("DBX-01")
def test_the_same_body_means_the_same_as_on_openais_route(base: str) -> None:
    body: dict[str, Any] = {"messages": [USER], "stream": False, "temperature": 0.5, "stop": ["l"], "n": 2}
    here, there = invoke(base, **body).json, invoke(base, "/v1/chat/completions", **body).json
    assert {**here, "id": ""} == {**there, "id": ""}


@pytest.mark.spec("DBX-02", "DBX-07", "DBX-24", "DBX-91", "DBX-92")
def test_endpoints_of_both_modes_take_the_same_requests_but_for_one_field_each() -> None:
    """Resolution D-01; without a mode both fields are taken."""
    modes: list[tuple[EndpointMode, int, int]] = [
        ("any", 200, 200), ("pay_per_token", 400, 200), ("provisioned", 200, 400),
    ]  # fmt: skip
    tasks: list[dict[str, Any]] = [{"messages": [USER]}, {"prompt": "Hi"}]
    for mode, n, behavior in modes:
        with running(app(HELLO, dialects=[databricks(mode=mode)])) as base:
            assert ask(base, max_tokens=3, temperature=0.1, top_k=3).status == 200
            for task in tasks:
                assert invoke(base, **task, stream=False, n=2).status == n
                assert invoke(base, **task, stream=False, error_behavior="error").status == behavior


@pytest.mark.spec("DBX-03")
def test_endpoints_are_called_with_post(base: str) -> None:
    got = request(base, "GET", PATH)
    assert (got.status, got.headers["allow"], got.json["error_code"]) == (405, "POST", "BAD_REQUEST")


@pytest.mark.spec("DBX-04")
def test_each_model_has_one_endpoint_of_its_name_whatever_the_body_says() -> None:
    source = StaticCatalog({name: model(scripted(ids(name, END)), name=name) for name in ("a", "org/b")})
    with running(create_app(source)) as base:
        for name in ("a", "org/b"):
            got = invoke(base, f"/serving-endpoints/{name}/invocations", messages=[USER], stream=False, model="zzz")
            assert (got.json["model"], got.json["choices"][0]["message"]["content"]) == (name, name)
        unknown = invoke(base, "/serving-endpoints/c/invocations", messages=[USER])
    assert (unknown.status, unknown.json["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.spec("DBX-05")
def test_the_body_tells_the_task(base: str) -> None:
    assert ask(base).json["object"] == "chat.completion"
    assert invoke(base, prompt="Hi", stream=False).json["object"] == "text_completion"
    assert ask(base).headers["content-type"] == "application/json"
    several: dict[str, Any] = {"messages": [USER], "prompt": "Hi"}
    for body in ({}, several):
        assert "tells the task" in refusal(invoke(base, **body))
    for raw in (b"", b"{", b"[]", b'{"messages": NaN}', b"\xff"):
        assert refusal(request(base, "POST", PATH, raw, content_type="application/json"))


@pytest.mark.spec("DBX-06", "DBX-18", "DBX-19", "DBX-69", "DBX-86")
@pytest.mark.parametrize("task", [{"messages": [USER]}, {"prompt": "Hi"}], ids=["chat", "completion"])
def test_strictly_both_tasks_stream_unless_the_request_says_otherwise(
    base: str, strict_base: str, task: dict[str, Any]
) -> None:
    """Resolution D-04: the value decides, not that it is there; what was decided is told in a header (X-04)."""
    for place, unsaid in ((strict_base, True), (base, False)):
        for stream, streamed in ((None, unsaid), (True, True), (False, False)):
            got = invoke(place, **task, stream=stream)
            kind = "text/event-stream; charset=utf-8" if streamed else "application/json"
            assert got.headers["content-type"] == kind
            assert got.headers["x-antiphon-stream"] == str(streamed).lower()
            if streamed:
                assert got.events[-1] == "[DONE]"
        assert "stream" in refusal(invoke(place, **task, stream="yes"))


@pytest.mark.parametrize("strict", [False, True])
def test_the_owner_may_decide_whether_there_is_a_stream_that_was_not_requested(strict: bool) -> None:
    with running(app(HELLO, dialects=[databricks(strict=strict, streams=False)])) as base:
        assert invoke(base, messages=[USER]).json["choices"][0]["message"]["content"] == "Hello"
        assert invoke(base, messages=[USER], stream=True).events[-1] == "[DONE]"
    with running(app(HELLO, dialects=[databricks(strict=strict, streams=True)])) as base:
        assert invoke(base, messages=[USER]).events[-1] == "[DONE]"


def test_a_client_that_takes_json_alone_gets_no_stream_that_it_did_not_ask_for(strict_base: str) -> None:
    body = json.dumps({"messages": [USER]}).encode()
    for accept, stream in (("application/json", "false"), ("*/*", "true"), ("text/event-stream", "true")):
        got = request(strict_base, "POST", PATH, body, content_type="application/json", accept=accept)
        assert got.headers["x-antiphon-stream"] == stream
    body = json.dumps({"messages": [USER], "stream": True}).encode()
    got = request(strict_base, "POST", PATH, body, content_type="application/json", accept="application/json")
    assert got.headers["x-antiphon-stream"] == "true"


@pytest.mark.parametrize("task", [{"messages": [USER]}, {"prompt": "Hi"}], ids=["chat", "completion"])
@pytest.mark.parametrize("wish", [None, {"include_usage": False}, {"include_usage": True}])
def test_a_stream_says_its_usage_once(base: str, task: dict[str, Any], wish: Any) -> None:
    """In the chunk that was requested for it, else with the last choice's end: a client that adds counts it once."""
    *events, _ = invoke(base, **task, n=2, stream=True, stream_options=wish).events
    found = [event for event in events if event.get("usage")]
    assert found == events[-1:]
    assert found[0]["usage"]["completion_tokens"] == 2 * len(HELLO)
    assert bool(found[0]["choices"]) is not bool(wish and wish["include_usage"])


@pytest.mark.spec("DBX-08", "DBX-09", "DBX-10", "DBX-11", "DBX-12", "DBX-101")
def test_usage_has_one_shape_in_all_tasks(base: str) -> None:
    chat, text = ask(base).json["usage"], invoke(base, prompt="Hi", stream=False).json["usage"]
    assert list(chat) == list(text)
    assert list(chat)[:3] == ["prompt_tokens", "completion_tokens", "total_tokens"]
    for usage in (chat, text):
        assert usage["completion_tokens"] == len(HELLO)
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert all(isinstance(usage[name], int) for name in list(usage)[:3])


@pytest.mark.spec("DBX-13", "DBX-14", "DBX-96")
def test_prompt_tokens_count_what_the_template_adds_and_a_raw_prompt_has_nothing_added(base: str) -> None:
    assert ask(base).json["usage"]["prompt_tokens"] == FRAME + len("Hi")
    for raw, tokens in ((None, FRAME + 2), (False, FRAME + 2), (True, 2)):
        got = invoke(base, prompt="Hi", stream=False, use_raw_prompt=raw)
        assert got.json["usage"]["prompt_tokens"] == tokens


# What strict means, and errors


def test_strictly_nothing_beyond_the_document_is_taken(base: str, strict_base: str) -> None:
    for name, value in (("seed", 1), ("presence_penalty", 0.5), ("nonsense", 1)):
        assert ask(base, **{name: value}).status == 200
        assert name in refusal(ask(strict_base, **{name: value}))
    for name in CHAT.split():
        assert name in PARAMETERS
    assert set(NUMBERS) < PARAMETERS


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_an_error_in_mid_stream_is_written_in_the_dialects_words(dialect: Dialect) -> None:
    with running(app(Breaking(ids("So"), EngineError("The engine failed.")), dialects=[dialect])) as base:
        place = f"{dialect.places[0]}/chat/completions"
        *_, last, done = invoke(base, place, model="small", messages=[USER], stream=True).events
    text = json.dumps(last)
    assert "The engine failed." in text
    assert done == "[DONE]"
    shapes = {"openai": "error", "databricks": "error_code", "mindie": "err_msg", "lmdeploy": "message"}
    assert shapes[dialect.name] in last


def test_errors_before_a_route_is_found_are_written_in_the_words_of_the_place(base: str) -> None:
    assert request(base, "GET", "/serving-endpoints/small").json["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    assert request(base, "GET", "/lmdeploy/v1/nothing").json["object"] == "error"
    assert request(base, "GET", "/v1/nothing").error["code"] == "unknown_url"


# The management API: what endpoints there are

ENDPOINTS = "/api/2.0/serving-endpoints"


def test_models_are_listed_as_endpoints_with_and_without_a_slash() -> None:
    source = StaticCatalog({name: model(scripted(HELLO), name=name) for name in ("a", "org/b")} | {"count": counting()})
    with running(create_app(source)) as base:
        listed = request(base, "GET", ENDPOINTS)
        assert listed.json == request(base, "GET", f"{ENDPOINTS}/").json
        found = {one["name"]: one for one in listed.json["endpoints"]}
        assert {name: one["task"] for name, one in found.items()} == {
            "a": "llm/v1/chat", "org/b": "llm/v1/chat", "count": "llm/v1/embeddings",
        }  # fmt: skip
        assert {one["state"]["ready"] for one in found.values()} == {"READY"}
        for name, one in found.items():
            assert request(base, "GET", f"{ENDPOINTS}/{name}").json == one
            assert one["config"]["served_entities"] == [{"name": name, "entity_name": name}]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nosuch", 404, "RESOURCE_DOES_NOT_EXIST"), ("GET", "/small/metrics", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("POST", "", 404, "RESOURCE_DOES_NOT_EXIST"), ("DELETE", "/small", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("PUT", "/small/config", 404, "RESOURCE_DOES_NOT_EXIST"),
    ],
)  # fmt: skip
def test_what_is_not_there_or_cannot_be_changed_is_refused_in_the_providers_words(
    base: str, method: str, path: str, status: int, code: str
) -> None:
    got = request(base, method, f"{ENDPOINTS}{path}")
    assert (got.status, got.json["error_code"], set(got.json)) == (status, code, {"error_code", "message"})


def test_a_body_that_is_too_large_or_no_json_is_a_400_which_no_client_repeats(base: str) -> None:
    """The SDK knows no 413 and no 415, and takes them for errors of the server."""
    large = request(base, "POST", PATH, b" " * (8 * 2**20 + 1), content_type="application/json")
    form = request(base, "POST", PATH, b"a=b", content_type="application/x-www-form-urlencoded")
    for got in (large, form):
        assert (got.status, got.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize("place", databricks().places)
def test_responses_are_at_the_places_of_the_provider_too(base: str, place: str) -> None:
    made = invoke(base, f"{place}/responses", model="small", input="Hi").json
    assert made["output"][-1]["content"][0]["text"] == "Hello"
    assert request(base, "GET", f"{place}/responses/{made['id']}").json["id"] == made["id"]
    assert "temperature" in refusal(invoke(base, f"{place}/responses", model="small", input="Hi", temperature=9))
