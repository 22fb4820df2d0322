"""Databricks' dialect on the invocations route, through a real socket: one address a model, the task by the body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import FinishReason
from antiphon.engines import ScriptedEngine
from antiphon.errors import EngineError
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import Piece
from antiphon.wire.dialect import Dialect
from antiphon.wire.dialects import DIALECTS, databricks
from antiphon.wire.dialects.databricks import CHAT, NUMBERS, PARAMETERS, EndpointMode
from kit.api import CALL, CHATML, END, TOKENIZER, UNCALL, Got, app, call, ids, model, request, running, scripted
from kit.breaking import Breaking

PATH = "/serving-endpoints/small/invocations"
HELLO = ids("Hello", END)
STRICT = databricks(strict=True)
USER = {"role": "user", "content": "Hi"}
FRAME = 19  # tokens of the template around a user's text


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(app(HELLO, clock=lambda: 1_700_000_000.5)) as url:
        yield url


@pytest.fixture(scope="module")
def strict_base() -> Iterator[str]:
    with running(app(HELLO, dialects=[STRICT])) as url:
        yield url


def invoke(base: str, path: str = PATH, **fields: Any) -> Got:
    return request(base, "POST", path, json.dumps(fields).encode(), content_type="application/json")


def ask(base: str, **fields: Any) -> Got:
    """A chat that is not streamed unless ``stream`` says so."""
    return invoke(base, **{"messages": [USER], "stream": False, **fields})


def refusal(got: Got) -> str:
    assert (got.status, got.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), got.body
    assert set(got.json) == {"error_code", "message"}
    message: str = got.json["message"]
    return message


def tool(name: str = "f", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Does it.", **function}}


def called(name: str, arguments: str) -> tuple[Piece, ...]:
    """A call as the template writes it, which is how the grammar has it."""
    return (CALL, f'\n{{"name": "{name}", "arguments": {arguments}}}\n', UNCALL)


def held(*said: Piece) -> tuple[ScriptedEngine, Starlette]:
    """An engine that says ``said`` whatever grammar it is given, and is caught where that breaks the grammar."""
    engine = scripted(ids(*said, END), end_ids=frozenset({TOKENIZER.controls[END]}))
    compiler = ReplyCompiler(CHATML, TOKENIZER, {TOKENIZER.controls[END]})
    holding = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=CHATML, compiler=compiler)
    return engine, create_app(StaticCatalog({"small": holding}))


# General


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
def test_both_tasks_stream_unless_the_request_says_otherwise(base: str, task: dict[str, Any]) -> None:
    """Resolution D-04: the value decides, not that it is there; what was decided is told in a header (X-04)."""
    for stream, streamed in ((None, True), (True, True), (False, False)):
        got = invoke(base, **task, stream=stream)
        kind = "text/event-stream; charset=utf-8" if streamed else "application/json"
        assert got.headers["content-type"] == kind
        assert got.headers["x-antiphon-stream"] == str(streamed).lower()
        if streamed:
            assert got.events[-1] == "[DONE]"
    assert "stream" in refusal(invoke(base, **task, stream="yes"))


def test_the_owner_may_have_no_stream_that_was_not_asked_for() -> None:
    with running(app(HELLO, dialects=[databricks(streams=False)])) as base:
        assert invoke(base, messages=[USER]).json["choices"][0]["message"]["content"] == "Hello"
        assert invoke(base, messages=[USER], stream=True).events[-1] == "[DONE]"


def test_a_client_that_takes_json_alone_gets_no_stream_that_it_did_not_ask_for(base: str) -> None:
    body = json.dumps({"messages": [USER]}).encode()
    for accept, stream in (("application/json", "false"), ("*/*", "true"), ("text/event-stream", "true")):
        got = request(base, "POST", PATH, body, content_type="application/json", accept=accept)
        assert got.headers["x-antiphon-stream"] == stream
    asked = json.dumps({"messages": [USER], "stream": True}).encode()
    got = request(base, "POST", PATH, asked, content_type="application/json", accept="application/json")
    assert got.headers["x-antiphon-stream"] == "true"


# Usage


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


# Chat request


@pytest.mark.spec("DBX-15", "DBX-16", "DBX-78")
def test_a_chat_goes_on_with_the_conversation() -> None:
    engine = scripted(HELLO)
    talk = [USER, {"role": "assistant", "content": "Ho"}, {"role": "user", "content": "Hu"}]
    with running(app(engine)) as base:
        answer = ask(base, messages=talk).json
        wrong: list[Any] = [None, [], "Hi", [{}], [{"content": "x"}]]
        for bad in wrong:
            assert invoke(base, messages=bad).status == 400
    said = TOKENIZER
    prompt = b"".join(piece if isinstance(piece := said.piece(id), bytes) else b"" for id in engine.requests[0][0])
    assert prompt == b"user\nHi\nassistant\nHo\nuser\nHu\nassistant\n"
    assert answer["choices"][0]["message"]["role"] == "assistant"


RANGES: list[tuple[str, list[Any], list[Any], Any]] = [
    ("max_tokens", [1, 2**40], [0, -1, 1.5, "1"], None),
    ("temperature", [0, 0.0, 1, 2.0], [-0.1, 2.1, "1"], 1.0),
    ("top_p", [0.1, 1], [0, 1.1], 1.0),
    ("top_k", [1, 50], [0, -1, 1.5], 0),
    ("n", [1, 2, 8], [0, -1, 9, 1.5], None),
]


@pytest.mark.spec("DBX-17", "DBX-20", "DBX-21", "DBX-22", "DBX-24", "DBX-85", "DBX-87", "DBX-88", "DBX-89", "DBX-92")
@pytest.mark.parametrize("task", [{"messages": [USER]}, {"prompt": "Hi"}], ids=["chat", "completion"])
@pytest.mark.parametrize(("name", "inside", "outside", "default"), RANGES)
def test_numbers_lie_in_their_ranges_reach_the_engine_and_null_is_absent(
    task: dict[str, Any], name: str, inside: list[Any], outside: list[Any], default: Any
) -> None:
    engine = scripted(HELLO)
    with running(app(engine, dialects=[STRICT])) as base:
        for value in inside:
            assert invoke(base, **task, stream=False, **{name: value}).status == 200, value
            sampling = engine.requests[-1][1]
            assert getattr(sampling, name, value) in (value, 8192 - len(engine.requests[-1][0]))
        unsaid: list[dict[str, Any]] = [{}, {name: None}]
        for absent in unsaid:
            assert invoke(base, **task, stream=False, **absent).status == 200
            if default is not None:
                assert getattr(engine.requests[-1][1], name) == default
        for value in outside:
            assert name in refusal(invoke(base, **task, stream=False, **{name: value})), value


def test_unless_strict_minus_1_and_0_turn_top_k_off(base: str) -> None:
    """Resolution X-13."""
    assert [ask(base, top_k=k).status for k in (0, -1)] == [200, 200]


@pytest.mark.spec("DBX-17", "DBX-85")
def test_without_max_tokens_only_the_context_ends_an_answer() -> None:
    with running(app(scripted(ids("x" * 300), context=100))) as base:
        tasks: list[dict[str, Any]] = [{"messages": [USER]}, {"prompt": "Hi"}]
        for task in tasks:
            answer = invoke(base, **task, stream=False).json
            assert (answer["usage"]["total_tokens"], answer["choices"][0]["finish_reason"]) == (100, "length")
            assert invoke(base, **task, stream=False, max_tokens=5).json["usage"]["completion_tokens"] == 5


@pytest.mark.spec("DBX-23", "DBX-93")
@pytest.mark.parametrize("task", [{"messages": [USER]}, {"prompt": "Hi"}], ids=["chat", "completion"])
def test_generation_stops_before_any_stop_string_and_there_may_be_many(base: str, task: dict[str, Any]) -> None:
    """Resolution D-05: as many as are wanted; none of them empty."""
    for stop, text in (([], "Hello"), ("lo", "Hel"), (["x", "l"], "He"), ([*"abcdfgijkmnpqrstuvwxyz", "o"], "Hell")):
        choice = invoke(base, **task, stream=False, stop=stop).json["choices"][0]
        said = choice["text"] if "prompt" in task else choice["message"]["content"]
        assert (said, choice["finish_reason"]) == (text, "stop")
    assert "stop[0]" in refusal(invoke(base, **task, stop=[""]))


@pytest.mark.spec("DBX-25", "DBX-26", "DBX-30", "DBX-52", "DBX-53")
@pytest.mark.parametrize(
    "choice",
    [
        "some", 1, {"type": "function"}, {"type": "tool", "function": {"name": "f"}},
        {"type": "function", "function": {}}, {"type": "function", "function": {"name": "g"}}, {"name": "f"},
    ],
)  # fmt: skip
def test_a_tool_choice_is_a_word_or_names_one_of_the_tools(base: str, choice: Any) -> None:
    assert "tool_choice" in refusal(ask(base, tools=[tool()], tool_choice=choice))


@pytest.mark.spec("DBX-25")
def test_a_tool_choice_needs_tools(base: str) -> None:
    for choice in ("auto", "required", {"type": "function", "function": {"name": "f"}}):
        assert "tool_choice" in refusal(ask(base, tool_choice=choice))
    assert ask(base, tool_choice="none").status == 200


@pytest.mark.spec("DBX-27", "DBX-29", "DBX-31")
def test_by_default_the_model_decides_and_none_hides_the_tools() -> None:
    spoken, application = held("No need.")
    with running(application) as base:
        for choice in (None, "auto"):
            assert ask(base, tools=[tool()], tool_choice=choice).json["choices"][0]["finish_reason"] == "stop"
        assert ask(base, tools=[tool()], tool_choice="none").status == 200
        assert ask(base).status == 200
    free, auto, none, bare = (len(prompt) for prompt, _, _ in spoken.requests)
    assert free == auto > none == bare == FRAME + 2
    _, calling = held(*called("f", "{}"))
    with running(calling) as base:
        for choice in (None, "auto"):
            assert ask(base, tools=[tool()], tool_choice=choice).json["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.spec("DBX-28", "DBX-30", "DBX-58", "DBX-59")
def test_a_required_or_named_tool_is_called_with_what_its_schema_says() -> None:
    number = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tools = [tool("f", parameters=number), tool("g")]
    named = {"type": "function", "function": {"name": "g"}}
    cases = [
        (called("f", '{"a":1}'), "required", True), (called("f", '{"a":"x"}'), "required", False),
        (("I will not.",), "required", False), (called("g", "{}"), named, True), (called("g", '{"a":1}'), named, False),
        (called("f", '{"a":1}'), named, False),
    ]  # fmt: skip
    for said, choice, fits in cases:
        engine, application = held(*said)
        with running(application) as base:
            got = ask(base, tools=tools, tool_choice=choice)
        assert engine.requests[0][2] is not None
        assert (got.status == 200) is fits, (said, choice, got.body)
        if fits:
            assert got.json["choices"][0]["finish_reason"] == "tool_calls"
            assert got.json["choices"][0]["message"]["content"] is None


@pytest.mark.spec("DBX-32", "DBX-33", "DBX-34", "DBX-48", "DBX-54", "DBX-55", "DBX-56")
def test_tools_are_at_most_32_functions(base: str) -> None:
    assert ask(base, tools=None).status == 200
    assert ask(base, tools=[tool(f"f{i}") for i in range(32)]).status == 200
    assert "at most 32" in refusal(ask(base, tools=[tool(f"f{i}") for i in range(33)]))
    for bad in (
        {"type": "retrieval"},
        {"type": "function"},
        {"function": {"name": "f"}},
        {"type": "function", "function": {}},
    ):
        assert "tools[0]" in refusal(ask(base, tools=[bad]))


@pytest.mark.spec("DBX-35", "DBX-36", "DBX-37", "DBX-62", "DBX-63", "DBX-64", "DBX-65", "DBX-66", "DBX-67")
def test_a_response_format_is_held() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    named = {"name": "n", "description": "An a.", "schema": schema, "strict": True}
    wanted: list[tuple[Any, str, bool]] = [
        (None, "Hi!", True), ({"type": "text"}, "Hi!", True),
        ({"type": "json_object"}, '{"b":1}', True), ({"type": "json_object"}, "Hi!", False),
        ({"type": "json_schema", "json_schema": named}, '{"a":1}', True),
        ({"type": "json_schema", "json_schema": named}, '{"b":1}', False),
    ]  # fmt: skip
    for wish, said, fits in wanted:
        _, application = held(said)
        with running(application) as base:
            got = ask(base, response_format=wish)
        assert (got.status == 200) is fits, (wish, said, got.body)
        if fits:
            assert got.json["choices"][0]["message"]["content"] == said


@pytest.mark.spec("DBX-62", "DBX-63", "DBX-64", "DBX-66")
@pytest.mark.parametrize(
    "wish", [{}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": {}}},
             {"type": "json_schema", "json_schema": {"name": "n"}}, "json_object"],
)  # fmt: skip
def test_a_response_format_that_lacks_something_is_refused(base: str, wish: Any) -> None:
    assert "response_format" in refusal(ask(base, response_format=wish))


@pytest.mark.spec("DBX-38", "DBX-39", "DBX-40")
def test_log_probabilities_come_when_asked_for_with_as_many_candidates_as_wanted(base: str) -> None:
    """Resolution D-08: OpenAI's shape."""
    for absent in (None, False):
        assert ask(base, logprobs=absent).json["choices"][0]["logprobs"] is None
    for top in (0, 3, 20):
        told = ask(base, logprobs=True, top_logprobs=top).json["choices"][0]["logprobs"]["content"]
        assert [(one["token"], len(one["top_logprobs"])) for one in told] == [(c, top) for c in "Hello"]
        assert set(told[0]) == {"token", "logprob", "bytes", "top_logprobs"}
    for top in (-1, 21):
        assert "top_logprobs" in refusal(ask(base, logprobs=True, top_logprobs=top))
    for absent in (None, False):
        assert "logprobs must be true" in refusal(ask(base, logprobs=absent, top_logprobs=3))


# Messages


CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "1"}


@pytest.mark.spec("DBX-41")
def test_there_are_four_roles_and_strictly_no_more(base: str, strict_base: str) -> None:
    system = {"role": "system", "content": "Be brief."}
    talk = [system, USER, {"role": "assistant", "tool_calls": [CALLED]}, RESULT]
    developer = [{"role": "developer", "content": "x"}, USER]
    assert ask(strict_base, messages=talk).status == 200
    assert ask(base, messages=developer).status == 200
    assert "messages[0].role" in refusal(ask(strict_base, messages=developer))
    for role in ("robot", None, 1):
        assert "messages[0]" in refusal(ask(base, messages=[{"role": role, "content": "x"}]))


@pytest.mark.spec("DBX-42", "DBX-43")
def test_content_is_needed_where_no_tool_is_called_and_strictly_forbidden_where_one_is(
    base: str, strict_base: str
) -> None:
    """Resolution D-09."""
    for role in ("user", "system", "assistant"):
        assert "messages[0].content" in refusal(ask(base, messages=[{"role": role}]))
    beside = [USER, {"role": "assistant", "content": "Let me see.", "tool_calls": [CALLED]}, RESULT]
    for empty in ({}, {"content": None}, {"content": ""}):
        alone = [USER, {"role": "assistant", "tool_calls": [CALLED], **empty}, RESULT]
        assert [ask(one, messages=alone).status for one in (base, strict_base)] == [200, 200]
    assert ask(base, messages=beside).status == 200
    assert "messages[1].content" in refusal(ask(strict_base, messages=beside))
    for role in ("user", "system"):
        assert "tool_calls" in refusal(ask(base, messages=[{"role": role, "content": "x", "tool_calls": [CALLED]}]))


@pytest.mark.spec("DBX-44")
def test_a_tools_message_answers_a_call_and_no_other_message_does(base: str) -> None:
    calling = {"role": "assistant", "tool_calls": [CALLED]}
    assert ask(base, messages=[USER, calling, RESULT]).status == 200
    for result in ({**RESULT, "tool_call_id": "c2"}, {"role": "tool", "content": "1"}):
        assert "messages[2].tool_call_id" in refusal(ask(base, messages=[USER, calling, result]))
    for role in ("user", "assistant", "system"):
        bad = [{"role": role, "content": "x", "tool_call_id": "c1"}]
        assert "messages[0].tool_call_id" in refusal(ask(base, messages=bad))


@pytest.mark.spec("DBX-45")
def test_the_system_speaks_once_and_first(base: str) -> None:
    system = {"role": "system", "content": "Be brief."}
    assert ask(base, messages=[system, USER]).status == 200
    for talk in ([USER, system], [system, system, USER], [system, USER, system]):
        assert "as the first message" in refusal(ask(base, messages=talk))
    for path in ("/v1/chat/completions", "/lmdeploy/v1/chat/completions"):
        assert invoke(base, path, messages=[USER, system, system]).status == 200


@pytest.mark.spec("DBX-46")
def test_a_system_message_overrides_the_models_own() -> None:
    """Resolution X-09, with a template that has a system text of its own."""
    from antiphon.formats.template import template_format

    engine = scripted(ids("Hi"))
    internlm = template_format("internlm-chat-7b", TOKENIZER.controls.keys())
    spoken = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=internlm)
    with running(create_app(StaticCatalog({"small": spoken}))) as base:
        ask(base)
        ask(base, messages=[{"role": "system", "content": "Be brief."}, USER])
    own, theirs = (bytes(prompt).decode(errors="replace") for prompt, _, _ in engine.requests)
    assert "InternLM" in own
    assert "Be brief." in theirs
    assert "InternLM" not in theirs


@pytest.mark.spec("DBX-47", "DBX-48", "DBX-49", "DBX-50", "DBX-51")
@pytest.mark.parametrize(
    "bad",
    [
        {"id": None}, {"type": "code"}, {"function": None}, {"function": {"arguments": "{}"}},
        {"function": {"name": "f", "arguments": 1}}, {"function": {"name": "", "arguments": "{}"}},
    ],
)  # fmt: skip
def test_a_call_in_the_history_that_lacks_something_is_refused(base: str, bad: dict[str, Any]) -> None:
    told = refusal(ask(base, messages=[USER, {"role": "assistant", "tool_calls": [{**CALLED, **bad}]}]))
    assert "messages[1].tool_calls[0]" in told


@pytest.mark.spec("DBX-47", "DBX-48", "DBX-49", "DBX-50", "DBX-51")
def test_calls_have_ids_of_their_own_and_arguments_as_the_model_wrote_them() -> None:
    arguments = '{"a":  1e0}'
    with running(app(ids(*call("f", arguments), *call("f", arguments), END))) as base:
        first, second = ask(base, tools=[tool()]).json["choices"][0]["message"]["tool_calls"]
    assert first["id"] != second["id"]
    assert first == {"id": first["id"], "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.spec("DBX-51")
def test_an_object_of_arguments_is_read_as_its_own_text(base: str) -> None:
    """Resolution X-21."""
    given = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert ask(base, messages=[USER, {"role": "assistant", "tool_calls": [given]}, RESULT]).status == 200


# Tools


@pytest.mark.spec("DBX-57")
def test_a_functions_description_is_text_and_strictly_needed(base: str, strict_base: str) -> None:
    bare = {"type": "function", "function": {"name": "f"}}
    assert ask(base, tools=[bare]).status == 200
    assert "description" in refusal(ask(strict_base, tools=[bare]))
    assert "description" in refusal(ask(base, tools=[tool(description={})]))


@pytest.mark.spec("DBX-60")
def test_a_function_has_16_properties_at_most_and_strictly_15(base: str, strict_base: str) -> None:
    """Resolution X-26: those of the top level are counted."""

    def wide(count: int) -> list[dict[str, Any]]:
        inner = {"type": "object", "properties": {f"q{i}": {"type": "string"} for i in range(20)}}
        names = [f"p{i}" for i in range(count)]
        known = {**{name: {"type": "string"} for name in names}, "p0": inner}
        return [tool(parameters={"type": "object", "properties": known})]

    assert ask(base, tools=wide(16)).status == 200
    assert "at most 16" in refusal(ask(base, tools=wide(17)))
    assert ask(strict_base, tools=wide(15)).status == 200
    assert "at most 15" in refusal(ask(strict_base, tools=wide(16)))
    assert invoke(base, "/v1/chat/completions", messages=[USER], tools=wide(17)).status == 200


@pytest.mark.spec("DBX-58", "DBX-61", "DBX-67")
@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "string", "pattern": "a"}, "pattern"), ({"anyOf": []}, "anyOf"), ({"oneOf": []}, "oneOf"),
        ({"allOf": []}, "allOf"), ({"prefixItems": []}, "prefixItems"), ({"$ref": "#"}, "$ref"),
        ({"type": ["string", "integer"]}, "type"), ({"type": "array", "items": {"anyOf": []}}, "items.anyOf"),
    ],
)  # fmt: skip
def test_a_strict_schema_keeps_to_the_subset_and_the_keyword_is_named(base: str, schema: Any, keyword: str) -> None:
    """Resolution D-11."""
    parameters = {"type": "object", "properties": {"pattern": schema}}
    wish = {"type": "json_schema", "json_schema": {"name": "n", "schema": parameters, "strict": True}}
    path = f"parameters.properties.pattern.{keyword}"
    assert path in refusal(ask(base, tools=[tool(parameters=parameters, strict=True)]))
    assert f"schema.properties.pattern.{keyword}" in refusal(ask(base, response_format=wish))


@pytest.mark.spec("DBX-61")
def test_a_property_may_be_named_as_a_keyword_is_and_be_null() -> None:
    fine = {"type": "object", "properties": {"pattern": {"type": ["string", "null"]}}}
    _, application = held(*called("f", '{"pattern":null}'))
    with running(application) as base:
        assert ask(base, tools=[tool(parameters=fine, strict=True)]).status == 200


# Chat response


@pytest.mark.spec("DBX-68", "DBX-70", "DBX-71", "DBX-72", "DBX-74", "DBX-75", "DBX-76", "DBX-77", "DBX-79")
def test_an_answer_is_one_object_and_each_event_nearly_the_same(base: str) -> None:
    whole, again = ask(base, n=2).json, ask(base).json
    *chunks, _ = ask(base, stream=True).events
    assert isinstance(whole["id"], str)
    assert whole["id"] != again["id"]
    assert (whole["created"], whole["model"]) == (1_700_000_000, "small")
    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    assert {choice["finish_reason"] for choice in whole["choices"]} == {"stop"}
    assert set(whole) - {"usage"} == set(chunks[0])
    assert {name: type(value) for name, value in chunks[0].items()} == {
        name: type(value) for name, value in whole.items() if name != "usage"
    }


@pytest.mark.spec("DBX-73")
def test_the_object_is_named_as_providers_name_it_and_strictly_as_the_document_does(
    base: str, strict_base: str
) -> None:
    """Resolution X-05."""
    assert (ask(base).json["object"], ask(strict_base).json["object"]) == ("chat.completion", "chat.completions")
    for one in (base, strict_base):
        assert ask(one, stream=True).events[0]["object"] == "chat.completion.chunk"


@pytest.mark.spec("DBX-72", "DBX-76", "DBX-80", "DBX-81", "DBX-82")
def test_a_stream_tells_the_role_first_and_the_reason_and_the_usage_last(base: str) -> None:
    *chunks, done = ask(base, stream=True, n=2).events
    assert done == "[DONE]"
    assert "usage" not in chunks[0]
    assert chunks[-1]["usage"]["completion_tokens"] == 2 * len(HELLO)
    assert sum("usage" in chunk for chunk in chunks) == 1
    for index in (0, 1):
        mine = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
        assert [choice["delta"].get("role") for choice in mine] == ["assistant"] + [None] * (len(mine) - 1)
        assert [choice["finish_reason"] for choice in mine] == [None] * (len(mine) - 1) + ["stop"]
        assert "".join(choice["delta"].get("content", "") for choice in mine) == "Hello"


@pytest.mark.spec("DBX-79", "DBX-104")
def test_every_reason_has_a_word() -> None:
    """Resolution X-02."""
    words = {databricks().word(reason) for reason in FinishReason}
    assert words == {"stop", "tool_calls", "length", "content_filter"}
    for dialect in DIALECTS:
        assert set(dialect.finish) == set(FinishReason)
        assert set(dialect.finish.values()) <= set(dialect.reasons)
        for reason, word in dialect.finish.items():
            assert dialect.word(dialect.reasons[word]) == dialect.word(reason)


# Completions


@pytest.mark.spec("DBX-83", "DBX-84", "DBX-97", "DBX-98", "DBX-99", "DBX-100", "DBX-102", "DBX-103", "DBX-104")
def test_each_prompt_of_a_batch_has_its_choices_under_its_own_index(base: str) -> None:
    answer = invoke(base, prompt=["a", "b", "c"], n=2, stream=False).json
    again = invoke(base, prompt="a", stream=False).json
    assert answer["id"] != again["id"]
    assert (answer["object"], answer["created"], answer["model"]) == ("text_completion", 1_700_000_000, "small")
    assert [choice["index"] for choice in answer["choices"]] == [0, 0, 1, 1, 2, 2]
    assert {(choice["text"], choice["finish_reason"]) for choice in answer["choices"]} == {("Hello", "stop")}
    assert len(again["choices"]) == 1
    for bad in (None, [], 1, [""]):
        assert "prompt" in refusal(invoke(base, prompt=bad, stream=False))


@pytest.mark.spec("DBX-94", "DBX-95")
def test_echo_comes_before_the_completion_and_the_suffix_after_it(base: str) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "Hello"),
        ({"suffix": "", "echo": False}, "Hello"),
        ({"suffix": "!"}, "Hello!"),
        ({"echo": True}, "HiHello"),
        ({"echo": True, "suffix": "!"}, "HiHello!"),
    ]
    for fields, text in cases:
        assert invoke(base, prompt="Hi", stream=False, **fields).json["choices"][0]["text"] == text
        streamed = invoke(base, prompt="Hi", **fields).events[:-1]
        assert "".join(choice["text"] for event in streamed for choice in event["choices"]) == text


@pytest.mark.spec("DBX-90")
@pytest.mark.parametrize("task", [{"messages": [{"role": "user", "content": "x" * 200}]}, {"prompt": "x" * 200}])
def test_a_prompt_that_is_too_long_is_an_error_or_an_answer_cut_to_nothing(task: dict[str, Any]) -> None:
    """Resolution X-27: in chats too."""
    with running(app(scripted(HELLO, context=100))) as base:
        for behavior in (None, "error"):
            assert "219 tokens" in refusal(invoke(base, **task, stream=False, error_behavior=behavior))
        cut = invoke(base, **task, stream=False, error_behavior="truncate")
        assert cut.json["choices"][0]["finish_reason"] == "length"
        assert cut.json["usage"]["completion_tokens"] == 0
        assert "error_behavior" in refusal(invoke(base, **task, error_behavior="ignore"))


# What strict means, and errors


def test_strictly_nothing_beyond_the_document_is_taken(base: str, strict_base: str) -> None:
    for name, value in (("seed", 1), ("presence_penalty", 0.5), ("nonsense", 1)):
        assert ask(base, **{name: value}).status == 200
        assert name in refusal(ask(strict_base, **{name: value}))
    for name in CHAT.split():
        assert name in PARAMETERS
    assert set(NUMBERS) < PARAMETERS


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_an_error_in_mid_stream_is_told_in_the_dialects_words(dialect: Dialect) -> None:
    with running(app(Breaking(ids("So"), EngineError("The engine failed.")), dialects=[dialect])) as base:
        place = f"{dialect.places[0]}/chat/completions"
        *_, last, done = invoke(base, place, model="small", messages=[USER], stream=True).events
    told = json.dumps(last)
    assert "The engine failed." in told
    assert done == "[DONE]"
    shapes = {"openai": "error", "databricks": "error_code", "mindie": "err_msg", "lmdeploy": "message"}
    assert shapes[dialect.name] in last


def test_errors_before_a_route_is_found_are_told_in_the_words_of_the_place(base: str) -> None:
    assert request(base, "GET", "/serving-endpoints/small").json["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    assert request(base, "GET", "/lmdeploy/v1/nothing").json["object"] == "error"
    assert request(base, "GET", "/v1/nothing").error["code"] == "unknown_url"
