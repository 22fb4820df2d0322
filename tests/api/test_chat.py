"""Chat completions over a scripted engine, through a real socket."""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from antiphon.api import Limits
from antiphon.api.builtin import BUILT_IN
from antiphon.api.openapi.document import document
from antiphon.http.errors import OPENAI_ERRORS
from antiphon.http.exchange import Exchange
from kit.api import END, THINK, UNTHINK, app, call, chat, ids, request, running, scripted, served
from kit.call_ids import CALL_ID

HELLO = ids("Hello, wörld", END)


def test_a_whole_answer_has_the_shape_that_clients_know() -> None:
    with running(app(HELLO, clock=lambda: 1_700_000_000.9)) as base:
        got = chat(base)
    answer = got.json
    assert got.status == 200
    assert got.headers["content-type"] == "application/json"
    assert answer.pop("id").startswith("chatcmpl-")
    assert answer == {
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "small",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello, wörld", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 21,
            "completion_tokens": len(HELLO),
            "total_tokens": 21 + len(HELLO),
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "system_fingerprint": None,
    }


base = served(lambda: app(HELLO))


def test_a_stream_begins_with_the_role_and_ends_with_the_reason_the_usage_and_done(base: str) -> None:
    got = chat(base, stream=True, stream_options={"include_usage": True})
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert got.headers["cache-control"] == "no-cache"
    *chunks, usage, done = got.events
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(HELLO)
    assert not any("usage" in chunk for chunk in chunks), "resolution X-55"
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert choices[-1]["delta"] == {}
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello, wörld"


def test_without_being_asked_a_stream_tells_no_usage(base: str) -> None:
    *chunks, done = chat(base, stream=True).events
    assert done == "[DONE]"
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


def test_continuous_usage_is_on_every_chunk_and_grows_from_none(base: str) -> None:
    *chunks, _ = chat(base, stream=True, stream_options={"continuous_usage_stats": True}).events
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, len(HELLO))


def test_tool_calls_stream_with_one_index_id_and_name_each_and_arguments_byte_for_byte() -> None:
    first, second = '{"city":  "Zürich"}', '{"n": 1e2 }'
    reply = ids("Let me look.", *call("weather", first), *call("count", second), END)
    tools = [{"type": "function", "function": {"name": name}} for name in ("weather", "count")]
    with running(app(scripted(reply, chunk=3))) as base:
        whole = chat(base, tools=tools).json["choices"][0]
        chunks = [event["choices"][0] for event in chat(base, tools=tools, stream=True).events[:-1]]
    assert whole["finish_reason"] == chunks[-1]["finish_reason"] == "tool_calls"
    assert whole["message"]["content"] == "Let me look."
    assert [(call["type"], call["function"]) for call in whole["message"]["tool_calls"]] == [
        ("function", {"name": "weather", "arguments": first}),
        ("function", {"name": "count", "arguments": second}),
    ]
    deltas = [call for chunk in chunks for call in chunk["delta"].get("tool_calls", ())]
    begun = [delta for delta in deltas if "id" in delta]
    assert [(delta["index"], delta["function"]["name"]) for delta in begun] == [(0, "weather"), (1, "count")]
    given = [call["id"] for call in (*whole["message"]["tool_calls"], *begun)]
    assert len({*filter(CALL_ID.fullmatch, given)}) == 4, "each call of each answer has an id of its own"
    assert all(delta["function"]["arguments"] == "" for delta in begun)
    assert all(set(delta) == {"index", "function"} for delta in deltas if "id" not in delta)
    for index, arguments in enumerate((first, second)):
        assert "".join(d["function"]["arguments"] for d in deltas if d["index"] == index) == arguments


def test_arguments_cut_by_the_limit_are_delivered_and_the_reason_is_length() -> None:
    reply = ids(*call("weather", '{"city": "Z"}'), END)
    limit, tools = len(ids(*call("weather", '{"city"'))) - 2, [{"type": "function", "function": {"name": "weather"}}]
    with running(app(reply)) as base:
        choice = chat(base, tools=tools, max_completion_tokens=limit, max_tokens=1000).json["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city"'


def test_reasoning_is_hidden_unless_the_owner_exposes_it() -> None:
    reply = ids(THINK, "secret", UNTHINK, "open", END)
    with running(app(reply)) as base:
        bodies = [chat(base, logprobs=True, stream=stream).body for stream in (False, True)]
    assert all(b"secret" not in body and b'"reasoning"' not in body for body in bodies)
    assert b"[115, 101, 99" not in bodies[0].replace(b",", b", ")
    with running(app(reply, expose_reasoning=True)) as base:
        message = chat(base).json["choices"][0]["message"]
        chunks = [event["choices"][0]["delta"] for event in chat(base, stream=True).events[:-1]]
    assert (message["content"], message["reasoning"], message["reasoning_content"]) == ("open", "secret", "secret")
    assert "".join(delta.get("reasoning", "") for delta in chunks) == "secret"
    assert "".join(delta.get("content", "") for delta in chunks) == "open"


def test_a_stop_string_is_neither_shown_nor_followed_and_never_half_streamed() -> None:
    reply = ids("one two three", END)
    with running(app(reply)) as base:
        choice = chat(base, stop=[" thr", "zzz"]).json["choices"][0]
        chunks = [event["choices"][0] for event in chat(base, stop=" thr", stream=True).events[:-1]]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one two", "stop")
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == "one two"
    assert chunks[-1]["finish_reason"] == "stop"


def test_choices_share_the_prompt_and_their_usage_is_summed() -> None:
    replies = [ids("first", END), ids("second one", END)]
    with running(app(lambda prompt, sampling, choice: replies[choice])) as base:
        whole = chat(base, n=2).json
        events = chat(base, n=2, stream=True, stream_options={"include_usage": True}).events
    assert [choice["message"]["content"] for choice in whole["choices"]] == ["first", "second one"]
    assert whole["usage"]["prompt_tokens"] == 21
    assert whole["usage"]["completion_tokens"] == sum(map(len, replies))
    assert events[-2]["usage"] == whole["usage"]
    for index, text in enumerate(("first", "second one")):
        deltas = [c["delta"] for event in events[:-2] for c in event["choices"] if c["index"] == index]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert "".join(delta.get("content", "") for delta in deltas) == text


def test_logprobs_carry_bytes_and_alternatives() -> None:
    reply = ids("é", END)
    with running(app(reply)) as base:
        logprobs = chat(base, logprobs=True, top_logprobs=2).json["choices"][0]["logprobs"]
    assert logprobs["refusal"] is None
    assert [entry["bytes"] for entry in logprobs["content"]] == [[0xC3], [0xA9]]
    assert all(len(entry["top_logprobs"]) == 2 for entry in logprobs["content"])


def test_every_setting_reaches_the_engine() -> None:
    engine = scripted(HELLO)
    settings = {
        "temperature": 0.25, "top_p": 0.5, "top_k": 7, "min_p": 0.125, "seed": 2**63, "presence_penalty": 1.5,
        "frequency_penalty": -1.5, "repetition_penalty": 1.25, "max_completion_tokens": 9, "max_tokens": 5,
        "logit_bias": {"0": 3.5}, "logprobs": True, "top_logprobs": 4, "user": "u", "metadata": {"a": "b"},
    }  # fmt: skip
    with running(app(engine)) as base:
        assert chat(base, **settings).status == 200
    sampling = engine.requests[0][1]
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.25, 0.5, 7, 0.125)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (1.5, -1.5, 1.25)
    assert (sampling.seed, sampling.max_tokens, sampling.logit_bias, sampling.logprobs) == (2**63, 9, {0: 3.5}, 4)


def test_null_means_absent(base: str) -> None:
    nulls = dict.fromkeys(
        ["seed", "tools", "stop", "n", "temperature", "stream", "stream_options", "logit_bias", "tool_choice", "model"]
    )
    assert chat(base, **nulls).status == 200


@pytest.mark.one_process("reads what its process has counted")
def test_unknown_fields_are_ignored_counted_and_named_in_a_header() -> None:
    odd = {"frobnicate": 1, "line\r\nbreak": {"deep": [1, 2]}}
    application = app(HELLO)
    with running(application) as base:
        assert "x-antiphon-ignored" not in chat(base).headers
        answer = chat(base, **odd)
    assert answer.status == 200
    assert answer.headers["x-antiphon-ignored"] == "frobnicate, line??break"
    assert application.state.context.traffic.ignored_fields == 2


def test_routes_answer_with_and_without_the_version(base: str) -> None:
    for prefix in ("", "/v1", "/v1/v1"):
        models = request(base, "GET", f"{prefix}/models").json
        (card,) = models.pop("data")
        assert models == {"object": "list"}
        openai = {"id": "small", "object": "model", "created": 0, "owned_by": "antiphon"}
        assert {field: card[field] for field in openai} == openai
        assert request(base, "GET", f"{prefix}/models/small").json == card
        assert {request(base, "GET", f"{prefix}/{name}").status for name in ("health", "livez", "readyz")} == {200}
        assert "version" in request(base, "GET", f"{prefix}/version").json
        assert request(base, "GET", f"{prefix}/openapi.json").json["openapi"].startswith("3.")


def test_the_openapi_document_has_no_dangling_reference(base: str) -> None:
    document = request(base, "GET", "/openapi.json").json
    references = {part.split('"')[0] for part in json.dumps(document).split('"$ref": "#/components/schemas/')[1:]}
    assert references <= set(document["components"]["schemas"])
    assert {"ChatRequest", "ChatCompletion", "ChatChunk", "ErrorBody"} <= references


def test_headers_tell_the_request_its_time_and_its_model(base: str) -> None:
    given = chat(base).headers
    own = request(base, "GET", "/health", x_client_request_id="mine-1").headers
    forged = request(base, "GET", "/health", x_request_id="a b<script>").headers
    assert given["x-request-id"].startswith("req_")
    assert given["openai-model"] == "small"
    assert given["openai-version"] == "2020-10-01"
    assert int(given["openai-processing-ms"]) >= 0
    assert "plan;dur=" in given["server-timing"]
    assert own["x-request-id"] == "mine-1"
    assert forged["x-request-id"].startswith("req_")


def test_the_openapi_document_names_every_route_that_clients_call() -> None:
    application = app(HELLO)
    paths = {route.path.replace(":path", "") for route in application.routes if isinstance(route, Route)}
    described = set(json.loads(document(Limits(), [wire.described for wire in BUILT_IN]))["paths"])
    routes = {path for path in paths if path.startswith("/v1/") and not path.startswith("/v1/v1/")}
    called = {path for path in routes if "POST" in methods(application, path)}
    assert called <= described


def methods(application: Starlette, path: str) -> set[str]:
    routes = [route for route in application.routes if isinstance(route, Route)]
    return {method for route in routes if route.path.replace(":path", "") == path for method in route.methods or ()}


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        ({}, None),
        ({"x-session-affinity": "a"}, "a"),
        ({"x-session-id": "b"}, "b"),
        ({"x-session-id": "b", "x-session-affinity": "a"}, "a"),
        ({"x-session-id": "b", "x-session-affinity": ""}, "b"),
    ],
)
def test_a_header_names_the_session_whose_requests_go_to_one_place(
    headers: dict[str, str], session: str | None
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": raw}
    assert Exchange.of(scope, errors=OPENAI_ERRORS).tenant.affinity == session
