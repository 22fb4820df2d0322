"""MindIE's dialect, through a real socket: its worked samples, its ranges, its ends, its errors."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.dialects import mindie
from antiphon.api.errors import error_shape
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import FinishReason
from antiphon.engines import EngineEnd, ScriptedEngine, Step
from antiphon.errors import EngineError, EngineLostError, OverloadedError
from antiphon.http.errors import error_event
from kit.api import END, Got, app, call, ids, model, request, running, scripted, served
from kit.breaking import Breaking

HELLO = ids("Hello", END)
STRICT = mindie(strict=True)
PATH = "/v1/chat/completions"

SINGLE = {
    "model": "gpt-3.5-turbo",
    "messages": [{"role": "user", "content": "You are a helpful assistant."}],
    "max_tokens": 20,
    "presence_penalty": 1.03,
    "frequency_penalty": 1.0,
    "seed": None,
    "temperature": 0.5,
    "top_p": 0.95,
    "stream": False,
}
SYSTEM = {"role": "system", "content": "You are a student who is good at math."}
MULTI = {**SINGLE, "messages": [SYSTEM, {"role": "user", "content": "what is your hobby?"}]}

SAMPLE_ANSWER = {
    "id": "chatcmpl-123",
    "object": "chat.completion",
    "created": 1677652288,
    "model": "gpt-3.5-turbo-0613",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "\n\nHello there, how may I assist you today?"},
            "finish_reason": "eos_token",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
}
SAMPLE_PIECES = "am| a| French|man| living| in| the| UK|.| I| am| a| keen| photograph|er| and| I| have| been".split("|")


class Paced(ScriptedEngine):
    """Says one piece a step, then runs into the request's limit."""

    def __init__(self, pieces: Sequence[str]) -> None:
        super().__init__([])
        self._pieces = pieces

    async def generate(self, *args: Any, **options: Any) -> AsyncGenerator[Step, None]:
        for piece in self._pieces:
            yield Step(tuple(ids(piece)))
        yield Step((), end=EngineEnd.LENGTH_OUTPUT)


def serving(engine: ScriptedEngine, name: str, created: int) -> Starlette:
    source = StaticCatalog({name: model(engine, name=name)})
    return create_app(source, dialect=STRICT, clock=lambda: created)


base = served(lambda: app(HELLO, dialect=STRICT))


def post(base: str, path: str = PATH, **fields: Any) -> Got:
    body = {"model": "small", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return request(base, "POST", path, json.dumps(body).encode(), content_type="application/json")


def refusal(got: Got) -> str:
    """What an answer says that was refused: no output, ``stop_sequence``, and why."""
    assert got.status == 422, got.body
    assert got.json["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop_sequence"}
    ]
    assert got.json["err_msg"] == got.json["error"]
    assert got.json["error_type"] == "Input Validation Error"
    message: str = got.json["err_msg"]
    return message


@pytest.mark.spec("MIE-02", "MIE-21", "MIE-22", "MIE-23", "MIE-24", "MIE-25", "MIE-26", "MIE-27", "MIE-44")
@pytest.mark.spec("MIE-28", "MIE-29", "MIE-30", "MIE-31", "MIE-32", "MIE-33", "MIE-40")
@pytest.mark.parametrize("sample", [SINGLE, MULTI], ids=["single", "multi"])
def test_the_sample_requests_are_answered_in_the_shape_of_the_sample(sample: dict[str, Any]) -> None:
    text = "\n\nHello there, how may I assist you today?"
    engine = scripted(ids(text, END))
    application = serving(engine, "gpt-3.5-turbo", 1677652288)
    with running(application) as base:
        got = post(base, **{**sample, "max_tokens": 200})
        sampled = post(base, **sample)
    answer = got.json
    assert got.status == sampled.status == 200
    assert isinstance(answer["id"], str)
    assert answer["id"] != sampled.json["id"]
    usage = answer["usage"]
    assert usage["completion_tokens"] == len(text) + 1
    expected = {**SAMPLE_ANSWER, "id": answer["id"], "model": "gpt-3.5-turbo", "usage": usage}
    assert answer == expected
    assert list(answer) == list(SAMPLE_ANSWER)
    assert list(usage) == ["prompt_tokens", "completion_tokens", "total_tokens"]
    (_, sampling, _) = engine.requests[-1]
    assert (sampling.max_tokens, sampling.seed, sampling.temperature, sampling.top_p) == (20, None, 0.5, 0.95)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (1.03, 1.0)


@pytest.mark.spec("MIE-01", "MIE-45", "MIE-46", "MIE-47", "MIE-48", "MIE-49", "MIE-50", "MIE-51", "MIE-52", "MIE-53")
@pytest.mark.spec("MIE-54", "MIE-55", "MIE-56", "MIE-57", "MIE-58", "MIE-59")
def test_the_sample_stream_is_written_byte_for_byte() -> None:
    with running(serving(Paced(SAMPLE_PIECES), "baichuan", 1707275960)) as base:
        got = post(base, model="baichuan", stream=True, max_tokens=20)
    assert got.headers["content-type"].startswith("text/event-stream")
    id = got.events[0]["id"]
    head = f'data: {{"id":"{id}","object":"chat.completion.chunk","created":1707275960,"model":"baichuan",'
    lines = [
        f'{head}"choices":[{{"index":0,"delta":{{"role":"assistant","content":{json.dumps(piece)}}},'
        '"finish_reason":null}]}'
        for piece in SAMPLE_PIECES
    ]
    lines += [f'{head}"choices":[{{"index":0,"delta":{{}},"finish_reason":"length"}}]}}', "data: [DONE]"]
    assert len(lines) == 21
    assert got.body.decode() == "".join(f"{line}\n\n" for line in lines)


@pytest.mark.spec("MIE-03", "MIE-04")
@pytest.mark.parametrize("name", ["", ".small", "small-", "_small", "a/b", "a b", "Größe", "x" * 257])
def test_a_model_is_named_by_the_rule(name: str) -> None:
    with running(app(HELLO, dialect=mindie())) as base:
        assert "model" in refusal(post(base, model=name))


@pytest.mark.spec("MIE-03", "MIE-04")
def test_a_model_must_be_named_and_the_longest_name_is_taken() -> None:
    longest = "a" + "._-" * 85
    longest = longest[:255] + "z"
    source = StaticCatalog({longest: model(scripted(HELLO), name=longest)})
    with running(create_app(source, dialect=STRICT)) as base:
        assert post(base, model=longest).json["model"] == longest
        assert refusal(post(base, model=None)) == "model: is required."


@pytest.mark.spec("MIE-05", "MIE-08", "MIE-09")
@pytest.mark.parametrize(
    ("messages", "where"),
    [
        (None, "messages"),
        ("Hi", "messages"),
        ([], "messages"),
        ([{"role": "developer", "content": "x"}], "messages[0].role"),
        ([{"role": "function", "content": "x"}], "messages[0].role"),
        ([{"role": "function", "name": "f", "content": "x"}], "messages[0].name"),
        ([{"role": "user", "content": "x", "foo": 1}], "messages[0].foo"),
        ([SYSTEM, {"role": "user", "content": "x", "tool_call_id": "c"}], "messages[1].tool_call_id"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "messages[0].content"),
        ([{"role": "user", "content": ""}], "messages[0].content"),
        ([{"role": "user"}], "messages[0].content"),
        ([SYSTEM, {"role": "assistant", "content": None}, {"role": "user", "content": "x"}], "messages[1].content"),
    ],
)
def test_messages_have_one_of_four_roles_something_to_say_and_no_more(base: str, messages: Any, where: str) -> None:
    assert refusal(post(base, messages=messages)).startswith(where) or messages is None


@pytest.mark.spec("MIE-08")
def test_all_four_roles_are_read_and_a_tool_answers_without_an_id(base: str) -> None:
    talk = [{"role": role, "content": "x"} for role in ("system", "user", "assistant", "tool")]
    assert post(base, messages=talk).status == 200


@pytest.mark.spec("MIE-09")
def test_unless_strict_a_call_and_its_result_may_be_empty_and_results_answer_in_order() -> None:
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": f"f{i}", "arguments": "{}"}} for i in (1, 2)]
    talk = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": ""},
        {"role": "tool", "content": "done"},
    ]
    third = {"role": "tool", "tool_call_id": "c1", "content": "again"}
    with running(app(HELLO, dialect=mindie())) as base:
        assert post(base, messages=talk).status == 200
        assert refusal(post(base, messages=[*talk, third])).startswith("messages[4].tool_call_id")


@pytest.mark.spec("MIE-06")
def test_the_content_of_all_messages_is_bounded_in_characters() -> None:
    """UTF-16 units: the emoji counts as two (resolution X-17)."""
    with running(app(HELLO, dialect=mindie(max_content=10))) as base:
        assert (
            post(base, messages=[{"role": "user", "content": "中文中文"}, {"role": "user", "content": "123456"}]).status
            == 200
        )
        assert "11 characters" in refusal(post(base, messages=[{"role": "user", "content": "123456789😀"}]))
    with running(app(scripted(HELLO, context=2**21), dialect=mindie(max_seq_len=2**21))) as base:
        assert post(base, messages=[{"role": "user", "content": "x" * 2**19}]).status == 200
        assert "at most 524288" in refusal(post(base, messages=[{"role": "user", "content": "x" * (2**19 + 1)}]))


@pytest.mark.spec("MIE-07")
@pytest.mark.parametrize(("context", "most"), [(8192, 60), (80, 40)])
def test_a_prompt_leaves_room_for_the_longest_answer(context: int, most: int) -> None:
    """maxSeqLen 100 and maxIterTimes 40; a context of 80 is the narrower (resolution X-52)."""
    frame = 19  # tokens of the template around the text
    with running(app(scripted(HELLO, context=context), dialect=mindie(max_seq_len=100, max_iter_times=40))) as base:
        fits = post(base, messages=[{"role": "user", "content": "x" * (most - frame)}])
        assert (fits.status, fits.json["usage"]["prompt_tokens"]) == (200, most)
        message = refusal(post(base, messages=[{"role": "user", "content": "x" * (most - frame + 1)}]))
    assert f"{most + 1} tokens" in message
    assert f"{most} beside the answer" in message


@pytest.mark.spec("MIE-10", "MIE-11", "MIE-37", "MIE-38")
def test_no_answer_is_longer_than_max_iter_times() -> None:
    engine = scripted(ids("x" * 100))
    with running(app(engine, dialect=mindie(max_iter_times=30))) as base:
        answers = [post(base, max_tokens=limit).json for limit in (None, 7, 99)]
    assert [sampling.max_tokens for _, sampling, _ in engine.requests] == [30, 7, 30]
    assert [answer["usage"]["completion_tokens"] for answer in answers] == [30, 7, 30]
    assert {answer["choices"][0]["finish_reason"] for answer in answers} == {"length"}
    assert answers[1]["choices"][0]["message"]["content"] == "x" * 7


@pytest.mark.spec("MIE-37")
def test_a_full_context_ends_the_answer_for_length() -> None:
    assert mindie().word(FinishReason.LENGTH_CONTEXT) == "length"
    engine = scripted(ids("x" * 100), context=40)
    with running(app(engine, dialect=replace(mindie(), max_sequence=None))) as base:
        answer = post(base).json
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 40


@pytest.mark.spec("MIE-10", "MIE-12", "MIE-13", "MIE-14", "MIE-15", "MIE-17")
@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("max_tokens", [1, 512], [0, -1, 513, 2**64, 1.5, "1", True]),
        ("presence_penalty", [-2.0, 2, 0], [-2.01, 2.01, "0"]),
        ("frequency_penalty", [-2.0, 2, 0], [-2.01, 2.01, "0"]),
        ("seed", [1, 2**64 - 1], [0, -1, 2**64, 1.5]),
        ("temperature", [0.0005, 2, 2.0], [0, 0.0, -1, 2.01]),
        ("top_p", [0.001, 1, 1.0], [0, 0.0, -1, 1.01]),
    ],
)
def test_numbers_lie_in_their_ranges_and_null_is_absent(
    base: str, name: str, inside: list[Any], outside: list[Any]
) -> None:
    for value in (*inside, None):
        assert post(base, **{name: value}).status == 200, value
    for value in outside:
        assert refusal(post(base, **{name: value})).startswith(name), value


@pytest.mark.spec("MIE-10", "MIE-12", "MIE-13", "MIE-14", "MIE-15", "MIE-17", "MIE-18")
def test_absent_settings_have_their_defaults() -> None:
    engine = scripted(HELLO)
    with running(app(engine, dialect=mindie(max_iter_times=77))) as base:
        got = post(base)
    (_, sampling, _) = engine.requests[0]
    assert got.headers["x-antiphon-stream"] == "false"
    assert got.json["object"] == "chat.completion"
    assert (sampling.temperature, sampling.top_p, sampling.seed, sampling.max_tokens) == (1.0, 1.0, None, 77)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.0, 0.0)


@pytest.mark.spec("MIE-14")
def test_the_largest_seed_reaches_the_engine_whole() -> None:
    engine = scripted(HELLO)
    with running(app(engine, dialect=STRICT)) as base:
        post(base, seed=2**64 - 1)
    assert engine.requests[0][1].seed == 2**64 - 1


@pytest.mark.spec("MIE-15")
def test_unless_strict_later_releases_are_followed_greedy_decoding_and_seed_0_are_taken() -> None:
    with running(app(HELLO, dialect=mindie())) as base:
        assert post(base, temperature=0, seed=0, stop=["x"], top_k=3).status == 200


@pytest.mark.spec("MIE-16")
def test_a_very_low_temperature_is_warned_of(base: str) -> None:
    assert "0.001" in post(base, temperature=0.0009).headers["x-antiphon-warning"]
    assert "x-antiphon-warning" not in post(base, temperature=0.001).headers


@pytest.mark.spec("MIE-29", "MIE-55")
def test_strictly_there_is_one_choice_and_no_parameter_beyond_the_document(base: str) -> None:
    assert "n" in refusal(post(base, n=2))
    beyond: dict[str, Any] = {"stop": "x", "top_k": 1, "tools": [], "unheard_of": 1}
    for name, value in beyond.items():
        assert refusal(post(base, **{name: value})).startswith(name)


@pytest.mark.spec("MIE-18")
@pytest.mark.parametrize("value", ["true", 1, []])
def test_stream_is_a_boolean(base: str, value: Any) -> None:
    assert refusal(post(base, stream=value)).startswith("stream")


@pytest.mark.spec("MIE-33")
def test_a_matched_stop_string_and_a_call_are_normal_ends() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    with running(app(ids("abc!", *call("f", "{}"), END), dialect=mindie())) as base:
        stopped = post(base, stop="c").json["choices"][0]
        called = post(base, tools=tools).json["choices"][0]
    assert (stopped["finish_reason"], stopped["message"]["content"]) == ("eos_token", "ab")
    assert called["finish_reason"] == "eos_token"
    assert called["message"]["tool_calls"][0]["function"]["name"] == "f"


@pytest.mark.spec("MIE-34")
def test_what_was_cancelled_or_stopped_has_its_own_end() -> None:
    """A client that cancelled is gone and hears nothing; one that the server stops hears that there is no answer."""
    assert mindie().word(FinishReason.CANCELLED) == "stop_sequence"
    assert mindie().reasons["stop_sequence"] is FinishReason.CANCELLED
    stopped = OverloadedError("The server stopped before the answer was whole.", code="draining")
    with running(app(Breaking([], stopped), dialect=STRICT)) as base:
        got = post(base)
    assert (got.status, got.json["choices"][0]["finish_reason"]) == (503, "stop_sequence")
    assert got.json["choices"][0]["message"]["content"] == ""


@pytest.mark.spec("MIE-35", "MIE-54")
@pytest.mark.parametrize("error", [EngineError("The engine failed."), EngineLostError("The engine died.")])
def test_an_error_while_running_says_stop_sequence_and_why(error: Exception) -> None:
    with running(app(Breaking([], error), dialect=STRICT)) as base:
        got = post(base)
    with running(app(Breaking(ids("So"), error), dialect=STRICT)) as base:
        *chunks, last, done = post(base, stream=True).events
    assert done == "[DONE]"
    assert got.status in (424, 503)
    assert got.json["choices"][0]["finish_reason"] == "stop_sequence"
    assert got.json["choices"][0]["message"]["content"] == ""
    assert got.json["err_msg"] == str(error)
    assert chunks
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop_sequence"}]
    assert last["err_msg"] == str(error)


@pytest.mark.spec("MIE-36")
def test_a_body_that_is_no_json_is_refused_in_the_same_words(base: str) -> None:
    got = request(base, "POST", PATH, b'{"model":', content_type="application/json")
    assert refusal(got)


@pytest.mark.spec("MIE-39")
def test_an_end_without_a_word_is_the_invalid_flag() -> None:
    wordless = replace(mindie(), finish={})
    with running(app(HELLO, dialect=wordless)) as base:
        assert post(base).json["choices"][0]["finish_reason"] == "invalid flag"


@pytest.mark.spec("MIE-41", "MIE-42", "MIE-43")
def test_usage_counts_the_whole_prompt_and_all_that_was_said() -> None:
    engine = scripted(HELLO)
    with running(app(engine, dialect=STRICT)) as base:
        usage = post(base).json["usage"]
    prompt = len(engine.requests[0][0])
    assert usage == {
        "prompt_tokens": prompt, "completion_tokens": len(HELLO), "total_tokens": prompt + len(HELLO),
    }  # fmt: skip


def test_the_dialect_is_spoken_under_its_name_beside_the_servers_own() -> None:
    with running(app(HELLO)) as base:
        theirs = post(base, "/mindie/v1/chat/completions").json
        answer = post(base).json
        unknown = request(base, "GET", "/mindie/v1/nothing")
    assert theirs["choices"][0]["finish_reason"] == "eos_token"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert unknown.json["choices"][0]["finish_reason"] == "stop_sequence"


def test_an_error_event_is_one_line() -> None:
    event = error_event(EngineError("Two\nlines."), error_shape(mindie()))
    assert event.count(b"\n") == 2
