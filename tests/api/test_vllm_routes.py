"""What calls vLLM's routes to render, derender and sample ids calls ours unchanged: the bodies of its own tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import Harmony
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, ControlScanner, decode
from kit.api import (
    END,
    THINK,
    TOKENIZER,
    UNTHINK,
    Got,
    app,
    call,
    chat,
    ids,
    post,
    post_in_process,
    running,
    sampled,
    scripted,
    served,
)
from kit.family_server import family
from kit.real import chatml_model

MODEL = "small"
SAID = ids(THINK, "hm", UNTHINK, "Fine, thanks.", END)
ENGINE = scripted(SAID, context=4000)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
DERENDER = "/v1/chat/completions/derender"
HELLO = [{"role": "user", "content": "Hello"}]

base = served(lambda: app(ENGINE, expose_reasoning=True))


def ask(base: str, path: str, **body: Any) -> Any:
    got = post(base, path, **body)
    assert got.status == 200, got.body
    return got.json


def generated(token_ids: list[int] | None, **more: Any) -> dict[str, Any]:
    """What vLLM's `/inference/v1/generate` answers, as its tests write it."""
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": "stop", "logprobs": more.pop("logprobs", None)}
    answer = {"request_id": "chatcmpl-test-id", "choices": [choice], "prompt_logprobs": None}
    return {**answer, "kv_transfer_params": None, "metrics": None, **more}


def chunk(token_ids: list[int], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One event of its stream."""
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": finish}
    return {"request_id": "test-req", "choices": [choice], "usage": None, **more}


# Render.


def test_a_rendered_chat_is_the_request_that_the_engine_would_get(base: str) -> None:
    settings = {"temperature": 0.123, "top_p": 0.456, "frequency_penalty": 1.1, "stop": ["x"], "max_tokens": 7}
    assert chat(base, messages=HELLO, **settings).status == 200
    prompt, sampling, _ = ENGINE.requests[-1]
    made = ask(base, "/v1/chat/completions/render", model=MODEL, messages=HELLO, **settings)
    assert (made["model"], made["token_ids"]) == (MODEL, list(prompt))
    assert made["request_id"].startswith("chatcmpl-")
    params = made["sampling_params"]
    assert (params["temperature"], params["top_p"], params["frequency_penalty"]) == (0.123, 0.456, 1.1)
    assert (params["stop"], params["max_tokens"], params["stop_token_ids"]) == (["x"], 7, sorted(sampling.stop_ids))
    assert (made["stream"], made["stream_options"], made["token_offsets"]) == (False, None, None)


def test_a_streamed_chat_is_rendered_as_json_with_what_says_that_it_streams(base: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    made = ask(base, "/v1/chat/completions/render", messages=HELLO, stream=True, stream_options=options)
    assert made["stream"] is True
    assert made["stream_options"].items() >= options.items()


def test_prompts_of_completions_are_a_request_each(base: str) -> None:
    made = ask(base, "/v1/completions/render", model=MODEL, prompt=["Hello world", "Goodbye world"])
    assert [decode(TOKENIZER, one["token_ids"]) for one in made] == ["Hello world", "Goodbye world"]
    assert [one["request_id"][:5] for one in made] == ["cmpl-"] * 2
    (alone,) = ask(base, "/v1/completions/render", model=MODEL, prompt="Hi é.", return_token_offsets=True)
    assert alone["token_offsets"] == [[0, 1], [1, 2], [2, 3], [3, 4], [3, 4], [4, 5]]


def test_messages_and_responses_are_rendered_as_the_same_chat(base: str) -> None:
    of_chat = ask(base, "/v1/chat/completions/render", messages=HELLO)["token_ids"]
    message = ask(base, "/v1/messages/render", model=MODEL, max_tokens=5, messages=HELLO)
    response = ask(base, "/v1/responses/render", model=MODEL, input="Hello", max_output_tokens=7)
    assert message["token_ids"] == of_chat == response["token_ids"]
    assert message["sampling_params"]["max_tokens"] == 5
    assert response["sampling_params"]["max_tokens"] == 7
    assert response["request_id"].startswith("resp_")


def test_a_rendered_response_reads_nothing_that_is_stored(base: str) -> None:
    got = post(base, "/v1/responses/render", model=MODEL, input="Go on.", previous_response_id="resp_previous")
    assert (got.status, got.error["type"], got.error["param"]) == (400, "invalid_request_error", "previous_response_id")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions/render", {"messages": HELLO}),
        ("/v1/completions/render", {"prompt": "Hello"}),
        ("/v1/chat/completions/derender", {"generate_response": generated([1])}),
        ("/v1/completions/derender", {"generate_responses": [generated([1])]}),
        ("/inference/v1/generate", {"token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 5}}),
    ],
)
def test_a_model_that_is_not_there_is_not_found(base: str, path: str, body: dict[str, Any]) -> None:
    assert post(base, path, model="does-not-exist", **body).status == 404


# Derender.


def test_a_derendered_reply_is_the_chat_that_the_same_ids_make(base: str) -> None:
    theirs = chat(base, messages=HELLO).json
    made = ask(
        base,
        "/v1/chat/completions/derender",
        model=MODEL,
        generate_response=generated(SAID, prompt_logprobs=[None, None], kv_transfer_params={"key": "value"}),
        prompt_tokens=10,
        chat_request={"model": MODEL, "messages": HELLO},
    )
    assert made["choices"][0]["message"] == theirs["choices"][0]["message"]
    assert (made["object"], made["id"], made["model"]) == ("chat.completion", "chatcmpl-test-id", MODEL)
    assert made["usage"].items() >= {"prompt_tokens": 10, "completion_tokens": len(SAID)}.items()
    assert (made["prompt_logprobs"], made["kv_transfer_params"]) == ([None, None], {"key": "value"})


def test_without_its_request_a_reply_is_derendered_too(base: str) -> None:
    made = ask(base, "/v1/chat/completions/derender", generate_response=generated(SAID))
    assert made["choices"][0]["message"]["content"] == "Fine, thanks."
    assert made["usage"]["prompt_tokens"] == 0


def test_arguments_are_typed_by_the_tools_of_the_request() -> None:
    qwen = family("xml parameter")
    reply = "<tool_call>\n<function=get_weather>\n<parameter=city>\n02134\n</parameter>\n<parameter=days>\n3\n"
    reply += "</parameter>\n</function>\n</tool_call>"
    with running(qwen.app(reply)) as base:
        request = {"messages": HELLO, "tools": [WEATHER]}
        made = ask(base, "/v1/chat/completions/derender", chat_request=request,
                   generate_response=generated(qwen.ids(reply)))  # fmt: skip
        (choice,) = made["choices"]
        (one,) = choice["message"]["tool_calls"]
        assert json.loads(one["function"]["arguments"]) == {"city": "02134", "days": 3}
        assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("entry", [{"token_id": 70, "rank": 1}, {"token": "token_id:70", "bytes": None}])
def test_tokens_of_log_probabilities_are_spelled(base: str, entry: dict[str, Any]) -> None:
    content = [{**entry, "logprob": -1.0, "top_logprobs": [{**entry, "logprob": -2.0}]}]
    made = ask(base, "/v1/chat/completions/derender", generate_response=generated([70], logprobs={"content": content}))
    (one,) = made["choices"][0]["logprobs"]["content"]
    assert (one["token"], one["bytes"], one["logprob"]) == ("F", [70], -1.0)
    assert (one["top_logprobs"][0]["token"], one["top_logprobs"][0]["logprob"]) == ("F", -2.0)


@pytest.mark.parametrize("token_ids", [[], None])
def test_a_reply_without_ids_is_refused(base: str, token_ids: list[int] | None) -> None:
    got = post(base, "/v1/chat/completions/derender", generate_response=generated(token_ids))
    assert (got.status, got.error["param"]) == (400, "generate_response.choices[0].token_ids")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "generate_response"),
        ({"generate_response": generated([10**6])}, "generate_response.choices[0].token_ids[0]"),
        ({"generate_response": generated([1] * 5000)}, "generate_response.choices[0].token_ids"),
        ({"generate_response": generated([1]), "prompt_token_ids": [-1]}, "prompt_token_ids[0]"),
        ({"generate_response": generated([1]), "chat_request": {"messages": [{"role": "x"}]}},
         "chat_request.messages[0].role"),
        ({"generate_response": generated([1]), "chat_request": {"messages": HELLO, "tool_choice": "required"}},
         "chat_request.tool_choice"),
        ({"generate_response": {**generated([1]), "output_mode": "text"}}, "generate_response.output_mode"),
        ({"generate_response": generated([1], logprobs={"content": [{"logprob": -1, "token": "x"}]})},
         "generate_response.choices[0].logprobs.content[0][0]"),
        ({"stream": True}, "generate_chunk"),
        ({"stream": True, "generate_chunk": {"choices": [{"index": 0}, {"index": 1}]}}, "generate_chunk.choices"),
        ({"stream": True, "generate_chunk": chunk([70]), "stream_state": {"prev_tokens": ["forged"]}}, "stream_state"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_reply_is_named(base: str, body: dict[str, Any], param: str) -> None:
    got = post(base, "/v1/chat/completions/derender", **body)
    assert (got.status, got.error["param"]) == (400, param), got.body


def test_texts_of_several_prompts_are_choices_of_one_completion(base: str) -> None:
    replies = [generated(ids(text, END)) for text in ("one", "two")]
    made = ask(base, "/v1/completions/derender", generate_responses=replies, prompt_tokens=[5, 10])
    assert [(one["index"], one["text"], one["finish_reason"]) for one in made["choices"]] == [
        (0, "one", "stop"), (1, "two", "stop"),
    ]  # fmt: skip
    assert made["usage"].items() >= {"prompt_tokens": 15, "completion_tokens": 8}.items()
    got = post(base, "/v1/completions/derender", generate_responses=replies, prompt_tokens=[5])
    assert (got.status, got.error["param"]) == (400, "prompt_tokens")


def test_special_tokens_are_spelled_where_the_completion_says_so(base: str) -> None:
    reply = [generated(ids("a", THINK, "b"))]
    left_out = ask(base, "/v1/completions/derender", generate_responses=reply)
    request = {"prompt": "x", "skip_special_tokens": False, "use_raw_prompt": True}
    spelled = ask(base, "/v1/completions/derender", generate_responses=reply, completion_request=request)
    assert (left_out["choices"][0]["text"], spelled["choices"][0]["text"]) == ("ab", "a<think>b")


# Chunk by chunk.


def derendered(base: str, reply: list[int], size: int, **body: Any) -> list[Any]:
    """The choices of all chunks, the state of each handed to the next as a program with vLLM's fields would."""
    state, choices = None, []
    for at in range(0, len(reply), size):
        last = at + size >= len(reply)
        more = chunk(reply[at : at + size], "stop" if last else None)
        answer = ask(
            base, "/v1/chat/completions/derender", stream=True, generate_chunk=more, stream_state=state, **body
        )
        state = answer["stream_state"]
        assert state["prev_tokens"] == [] if last else len(state["prev_tokens"][0]) <= 4096
        choices += answer["chunk"]["choices"]
    usage = {"prompt_tokens": 5, "completion_tokens": len(reply), "total_tokens": 5 + len(reply)}
    end = {"request_id": "test-req", "choices": [], "usage": usage}
    answer = ask(base, DERENDER, stream=True, generate_chunk=end, stream_state=state, **body)
    assert (answer["chunk"]["choices"], answer["chunk"]["usage"]["completion_tokens"]) == ([], len(reply))
    return choices


def joined(choices: list[Any]) -> dict[str, Any]:
    """The message that a client of a chat's stream reads."""
    message: dict[str, Any] = {"role": choices[0]["delta"]["role"], "content": "", "reasoning": "", "calls": {}}
    for choice in choices:
        delta = choice["delta"]
        message["content"] += delta.get("content", "")
        message["reasoning"] += delta.get("reasoning", "")
        for one in delta.get("tool_calls", ()):
            begun = message["calls"].setdefault(one["index"], {"arguments": ""})
            begun |= {"id": one["id"], "name": one["function"]["name"]} if "id" in one else {}
            begun["arguments"] += one["function"]["arguments"]
    return {**message, "finish": choices[-1]["finish_reason"]}


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_reply_in_chunks_is_the_reply_at_once(base: str, size: int) -> None:
    reply = ids(THINK, "hm", UNTHINK, "Look: ", *call("get_weather", '{"city": "Rome", "days": 2}'), END)
    request = {"messages": HELLO, "tools": [WEATHER]}
    choices = derendered(base, reply, size, chat_request=request, prompt_token_ids=ids("x"))
    read = joined(choices)
    assert [one["finish_reason"] for one in choices[:-1]] == [None] * (len(choices) - 1)
    assert (read["role"], read["reasoning"], read["content"], read["finish"]) == (
        "assistant", "hm", "Look:", "tool_calls",
    )  # fmt: skip
    (one,) = read["calls"].values()
    assert (one["name"], one["arguments"]) == ("get_weather", '{"city": "Rome", "days": 2}')
    assert one["id"].startswith("call_")


def test_a_state_is_of_its_own_request_alone(base: str) -> None:
    path = "/v1/chat/completions/derender"
    begun = ask(base, path, stream=True, generate_chunk=chunk(ids("a")))["stream_state"]
    other = {"messages": HELLO}
    got = post(base, path, stream=True, generate_chunk=chunk(ids("b")), stream_state=begun, chat_request=other)
    assert (got.status, got.error["code"], got.error["param"]) == (400, "invalid_state", "stream_state")


def test_a_completion_in_chunks_is_the_completion_at_once(base: str) -> None:
    reply, state, text = ids("Fine – and you?", END), None, ""
    for at, id in enumerate(reply):
        more = chunk([id], "stop" if at == len(reply) - 1 else None)
        more["choices"][0]["logprobs"] = {"content": [{"token_id": id, "logprob": -1.0}]}
        answer = ask(base, "/v1/completions/derender", stream=True, generate_chunk=more, stream_state=state)
        (choice,), state = answer["chunk"]["choices"], answer["stream_state"]
        assert choice["logprobs"]["text_offset"] == [len(text)]
        text += choice["text"]
    assert (text, choice["finish_reason"]) == ("Fine – and you?", "stop")


# Ids in, ids out.


def generate(base: str, **body: Any) -> Got:
    return post(base, "/inference/v1/generate", model=MODEL, **{"token_ids": [1, 2, 3], **body})


def test_ids_are_sampled_behind_ids(base: str) -> None:
    got = generate(base, sampling_params={"temperature": 0.0, "detokenize": False}, stream=False).json
    (choice,) = got["choices"]
    assert (choice["token_ids"], choice["finish_reason"], choice["logprobs"]) == (SAID, "stop", None)
    assert ENGINE.requests[-1][0] == (1, 2, 3), "the ids are the prompt as they stand"
    assert got["usage"].items() >= {"prompt_tokens": 3, "completion_tokens": len(SAID)}.items()
    assert "text" not in choice
    short = generate(base, sampling_params={"max_tokens": 5}).json["choices"][0]
    assert (len(short["token_ids"]), short["finish_reason"]) == (5, "length")


def test_ids_are_streamed_with_their_log_probabilities(base: str) -> None:
    options = {"include_usage": True}
    params = {"logprobs": 3, "max_tokens": 6}
    got = generate(base, sampling_params=params, stream=True, stream_options=options, return_token_ids=True)
    *events, usage, done = got.events
    choices = [one["choices"][0] for one in events]
    assert [id for choice in choices for id in choice["token_ids"]] == SAID[:6]
    scored = [one for choice in choices for one in choice["logprobs"]["content"]]
    assert [one["token_id"] for one in scored] == SAID[:6]
    assert {len(one["top_logprobs"]) for one in scored if one["logprob"] > -9999} == {3}
    assert ([choice["finish_reason"] for choice in choices][-1], done) == ("length", "[DONE]")
    assert usage["usage"]["completion_tokens"] == 6
    assert [one.get("prompt_token_ids") for one in events][:2] == [[1, 2, 3], None]


def test_the_text_of_ids_comes_where_it_is_requested(base: str) -> None:
    got = generate(base, output_mode="text", sampling_params={"stop": ["thanks"], "logprobs": 1}).json
    (choice,) = got["choices"]
    assert (choice["text"], choice["stop_reason"], choice["finish_reason"]) == ("hmFine, ", "thanks", "stop")
    assert choice["logprobs"]["content"][1]["token"] == "h"
    assert got["output_mode"] == "text"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": [10**6]}, "token_ids"),
        ({"features": {"mm_hashes": {}, "x": 1}}, "features"),
        ({"sampling_params": {"temperature": 9}}, "sampling_params.temperature"),
        ({"sampling_params": {"logprobs": 21}}, "sampling_params.logprobs"),
        ({"sampling_params": {"min_tokens": 4}}, "sampling_params.min_tokens"),
        ({"sampling_params": {"bad_words": ["x"]}}, "sampling_params.bad_words"),
        ({"sampling_params": {"prompt": "x"}}, "sampling_params.prompt"),
        ({"sampling_params": {"sharpness": 1}}, "sampling_params.sharpness"),
        ({"sampling_params": {"max_tokens": "x"}}, "sampling_params.max_tokens"),
        ({"output_mode": "html"}, "output_mode"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_what_cannot_be_honoured_of_a_request_of_ids_is_named(base: str, body: dict[str, Any], param: str) -> None:
    got = generate(base, **body)
    assert (got.status, got.error["param"]) == (400, param), got.body


def test_render_generate_and_derender_are_the_chat_in_three_steps() -> None:
    tokenizer, scanner = ByteTokenizer(Harmony().controls), ControlScanner(Harmony().controls)
    reply = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    said = sampled(tokenizer, [*scanner.feed(reply), *scanner.close()])
    model = Model(name="oss", engine=ScriptedEngine(said), tokenizer=tokenizer, format=Harmony())
    with running(create_app(StaticCatalog({"oss": model}), expose_reasoning=True)) as base:
        request = {"model": "oss", "messages": HELLO}
        rendered = ask(base, "/v1/chat/completions/render", **request)
        answer = ask(base, "/inference/v1/generate", **rendered)
        assert answer["choices"][0]["token_ids"] == said
        prompt = rendered["token_ids"]
        made = ask(base, DERENDER, generate_response=answer, chat_request=request, prompt_token_ids=prompt)
        assert made["choices"][0]["message"] == chat(base, **request).json["choices"][0]["message"]
        assert made["choices"][0]["message"]["reasoning"] == "hm"


async def test_the_real_model_says_the_same_in_three_steps_and_in_one(smollm2_path: Path) -> None:
    request = {"messages": [{"role": "user", "content": "Name three colours."}], "temperature": 0, "max_tokens": 24}
    async with chatml_model(smollm2_path, context=512, slots=1) as model:
        application = create_app(StaticCatalog({"smollm2": model}))
        rendered = (await post_in_process(application, "/v1/chat/completions/render", **request)).json
        answer = (await post_in_process(application, "/inference/v1/generate", **rendered)).json
        given = {"generate_response": answer, "chat_request": request}
        made = (await post_in_process(application, DERENDER, **given)).json["choices"][0]
        theirs = (await post_in_process(application, "/v1/chat/completions", **request)).json["choices"][0]
    assert made["message"] == theirs["message"]
    assert made["message"]["content"]
    assert made["finish_reason"] == theirs["finish_reason"]


def test_ids_whose_reasoning_nobody_may_see_are_sampled_for_nobody() -> None:
    model = Model(name="oss", engine=ScriptedEngine([1]), tokenizer=ByteTokenizer(Harmony().controls), format=Harmony())
    with running(create_app(StaticCatalog({"oss": model}))) as base:
        got = post(base, "/inference/v1/generate", token_ids=[1, 2], sampling_params={})
        assert (got.status, got.error["code"]) == (403, "E-PERM-VISIBILITY")
