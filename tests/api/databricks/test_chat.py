"""What a chat may ask for in Databricks' dialect, and its answer, whole and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api.dialects import DIALECTS, databricks
from antiphon.conversation import FinishReason
from kit.api import TOKENIZER, app, ids, running, scripted
from kit.databricks import HELLO, STRICT, USER, ask, constrained, invoke, refusal

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
    tokenizer = TOKENIZER
    prompt = b"".join(piece if isinstance(piece := tokenizer.piece(id), bytes) else b"" for id in engine.requests[0][0])
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
        unset: list[dict[str, Any]] = [{}, {name: None}]
        for absent in unset:
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
        content = choice["text"] if "prompt" in task else choice["message"]["content"]
        assert (content, choice["finish_reason"]) == (text, "stop")
    assert "stop[0]" in refusal(invoke(base, **task, stop=[""]))


@pytest.mark.spec("DBX-35", "DBX-36", "DBX-37", "DBX-62", "DBX-63", "DBX-64", "DBX-65", "DBX-66", "DBX-67")
def test_a_response_format_is_enforced() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    named = {"name": "n", "description": "An a.", "schema": schema, "strict": True}
    cases: list[tuple[Any, str, bool]] = [
        (None, "Hi!", True), ({"type": "text"}, "Hi!", True),
        ({"type": "json_object"}, '{"b":1}', True), ({"type": "json_object"}, "Hi!", False),
        ({"type": "json_schema", "json_schema": named}, '{"a":1}', True),
        ({"type": "json_schema", "json_schema": named}, '{"b":1}', False),
    ]  # fmt: skip
    for wish, reply, fits in cases:
        _, application = constrained(reply)
        with running(application) as base:
            got = ask(base, response_format=wish)
        assert (got.status == 200) is fits, (wish, reply, got.body)
        if fits:
            assert got.json["choices"][0]["message"]["content"] == reply


@pytest.mark.spec("DBX-62", "DBX-63", "DBX-64", "DBX-66")
@pytest.mark.parametrize(
    "wish", [{}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": {}}},
             {"type": "json_schema", "json_schema": {"name": "n"}}, "json_object"],
)  # fmt: skip
def test_a_response_format_that_lacks_something_is_refused(base: str, wish: Any) -> None:
    assert "response_format" in refusal(ask(base, response_format=wish))


@pytest.mark.spec("DBX-38", "DBX-39", "DBX-40")
def test_log_probabilities_come_when_requested_with_as_many_candidates_as_requested(base: str) -> None:
    """Resolution D-08: OpenAI's shape."""
    for absent in (None, False):
        assert ask(base, logprobs=absent).json["choices"][0]["logprobs"] is None
    for top in (0, 3, 20):
        entries = ask(base, logprobs=True, top_logprobs=top).json["choices"][0]["logprobs"]["content"]
        assert [(one["token"], len(one["top_logprobs"])) for one in entries] == [(c, top) for c in "Hello"]
        assert set(entries[0]) == {"token", "logprob", "bytes", "top_logprobs"}
    for top in (-1, 21):
        assert "top_logprobs" in refusal(ask(base, logprobs=True, top_logprobs=top))
    for absent in (None, False):
        assert "logprobs must be true" in refusal(ask(base, logprobs=absent, top_logprobs=3))
        assert ask(base, logprobs=absent, top_logprobs=0).json["choices"][0]["logprobs"] is None


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
        streamed = invoke(base, prompt="Hi", stream=True, **fields).events[:-1]
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
