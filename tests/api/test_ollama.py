"""Ollama's API: /api/chat and /api/generate over a scripted model, to the last field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.formats.raw import FillInMiddle
from antiphon.formats.template import jinja_format, template_format
from antiphon.tokens import ByteTokenizer, Control, Piece, decode
from kit.api import (
    CALL,
    END,
    THINK,
    TOKENIZER,
    UNTHINK,
    Got,
    app,
    call,
    ids,
    model,
    post_in_process,
    request,
    running,
    scripted,
    stopping,
)
from kit.obliging import chatting_and_embedding
from kit.responses import CHANNEL, HARMONY, MESSAGE, RETURN, VOCABULARY, harmony_ids
from kit.tool_loops import CHAT_TOOL, CITIES, QUESTION, REPLIES, check_goes_on, oss_app, plays

HI = [{"role": "user", "content": "Hi"}]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
PARTS: tuple[Piece, ...] = ("So: ", *call("look", '{"at": "é",\n "n": [1, 2]}'), *call("look", "{}"), END)


def lines(got: Got) -> list[Any]:
    assert (got.status, got.headers["content-type"]) == (200, "application/x-ndjson"), got.body
    assert got.body.endswith(b"\n")
    return [json.loads(line) for line in got.body.split(b"\n")[:-1]]


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without its times, which are looked at."""
    assert datetime.fromisoformat(answer["created_at"]).utcoffset() is not None
    assert answer["created_at"].endswith("Z")
    spent = {name: answer[name] for name in DURATIONS if name in answer}
    assert all(isinstance(one, int) and one > 0 for one in spent.values())
    assert sum(spent.values()) - spent.get("total_duration", 0) <= spent.get("total_duration", 0)
    return {name: value for name, value in answer.items() if name not in (*DURATIONS, "created_at")}


def idless(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert len({one["id"] for one in calls}) == len(calls)
    return [one["function"] for one in calls]


async def chat(application: Any, **fields: Any) -> Got:
    return await post_in_process(application, "/api/chat", **{"model": "small", "messages": HI, **fields})


async def generate(application: Any, **fields: Any) -> Got:
    return await post_in_process(application, "/api/generate", **{"model": "small", "prompt": "Hi", **fields})


async def test_a_chat_streams_a_line_a_change_unless_it_is_told_not_to() -> None:
    application = app(scripted(ids("Hé!", END), chunk=2))
    got = lines(await chat(application))
    texts = [line["message"]["content"] for line in got]
    assert "".join(texts) == "Hé!"
    assert len(texts) > 2
    assert [timeless(line) for line in got[:-1]] == [
        {"model": "small", "message": {"role": "assistant", "content": text}, "done": False} for text in texts[:-1]
    ]
    end = {
        "model": "small",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 21,
        "eval_count": 5,
    }
    assert timeless(got[-1]) == end
    assert set(DURATIONS) <= got[-1].keys()
    whole = await chat(application, stream=False)
    assert whole.headers["content-type"] == "application/json"
    assert timeless(whole.json) == {**end, "message": {"role": "assistant", "content": "Hé!"}}


async def test_a_prompt_is_answered_in_one_field() -> None:
    engine = scripted(ids("Hé!", END))
    got = lines(await generate(app(engine), system="Be brief."))
    assert "".join(line["response"] for line in got) == "Hé!"
    assert timeless(got[0]) == {"model": "small", "response": "H", "done": False}
    whole = await generate(app(engine), system="Be brief.", stream=False)
    assert timeless(whole.json) == {
        "model": "small",
        "response": "Hé!",
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": len(engine.requests[0][0]),
        "eval_count": 5,
    }
    asked = [{"role": "system", "content": "Be brief."}, *HI]
    await chat(app(engine), messages=asked, stream=False)
    assert engine.requests[0][0] == engine.requests[1][0] == engine.requests[2][0]


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_come_whole_in_a_line_each_with_an_object_of_arguments(stream: bool) -> None:
    got = await chat(app(ids(*PARTS)), tools=[LOOK], stream=stream)
    answers = lines(got) if stream else [got.json]
    told = [answer["message"]["tool_calls"] for answer in answers if "tool_calls" in answer["message"]]
    assert [len(calls) for calls in told] == ([1, 1] if stream else [2])
    assert idless([one for calls in told for one in calls]) == [
        {"index": 0, "name": "look", "arguments": {"at": "é", "n": [1, 2]}},
        {"index": 1, "name": "look", "arguments": {}},
    ]
    assert "".join(answer["message"]["content"] for answer in answers) == "So:"
    assert [answer.get("done_reason") for answer in answers][-1] == "stop"


async def test_arguments_that_are_no_object_are_the_text_of_one_and_never_half_an_object() -> None:
    engine = scripted(ids(CALL, '{"name": "look", "arguments": {"a": 1', END))
    got = (await chat(app(engine), tools=[LOOK], stream=False)).json
    assert got["message"]["content"] == ""
    assert [call["function"]["arguments"] for call in got["message"]["tool_calls"]] == [{"INVALID_JSON": '{"a": 1'}]
    oss = replace(model(scripted(harmony_ids(
        CHANNEL, "commentary to=functions.look", MESSAGE, '{"a": 1e999}', Control("<|call|>")
    ))), tokenizer=VOCABULARY, format=HARMONY)  # fmt: skip
    got = (await chat(create_app(StaticCatalog({"small": oss})), tools=[LOOK], stream=False)).json
    (call,) = got["message"]["tool_calls"]
    assert call["function"]["arguments"] == {"INVALID_JSON": '{"a": 1e999}'}


async def test_reasoning_is_shown_where_the_owner_shows_it_and_the_client_wants_it() -> None:
    script = ids(THINK, "Hm.", UNTHINK, "Yes.", END)
    shown = app(script, expose_reasoning=True)
    got = lines(await chat(shown))
    assert "".join(line["message"].get("thinking", "") for line in got) == "Hm."
    assert all("thinking" not in line["message"] for line in got if line["message"]["content"])
    got = lines(await generate(shown, think=True))
    assert "".join(line.get("thinking", "") for line in got) == "Hm."
    assert (await generate(shown, think=True, stream=False)).json["thinking"] == "Hm."
    for application, fields in ((app(script), {}), (shown, {"think": False})):
        answer = (await chat(application, stream=False, **fields)).json
        assert answer["message"] == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize(
    ("think", "effort"), [(None, "medium"), (True, "medium"), (False, "low"), ("low", "low"), ("high", "high")]
)
async def test_think_is_the_effort_of_a_model_that_has_efforts(think: bool | str | None, effort: str) -> None:
    engine = scripted(harmony_ids(CHANNEL, "final", MESSAGE, "Yes.", RETURN))
    oss = replace(model(engine), tokenizer=VOCABULARY, format=HARMONY)
    assert (await chat(create_app(StaticCatalog({"small": oss})), think=think)).status == 200
    assert f"Reasoning: {effort}" in decode(VOCABULARY, engine.requests[0][0])


async def test_a_model_that_does_not_think_is_not_made_to() -> None:
    plain = replace(model(scripted(ids("Yes.", END))), format=template_format("chatml", TOKENIZER.controls.keys()))
    application = create_app(StaticCatalog({"small": plain}))
    for think in (True, "high"):
        got = await chat(application, think=think)
        assert (got.status, got.json) == (400, {"error": '"small" does not support thinking'})
    assert (await chat(application, think=False)).status == 200
    got = await chat(app(ids(END)), think="very")
    assert (got.status, got.json["error"].partition(":")[0]) == (400, "think")


async def test_options_reach_the_engine_from_both_places() -> None:
    engine = scripted(ids("Yes.", END))
    options = {
        "temperature": 0.5, "top_p": 0.7, "top_k": 9, "min_p": 0.1, "repeat_penalty": 1.2, "seed": 3,
        "presence_penalty": 0.3, "frequency_penalty": 0.2, "num_predict": 3, "stop": ["zz"],
    }  # fmt: skip
    fields: dict[str, Any]
    for fields in ({"options": options}, options, {"options": options, "temperature": 0.5}):
        await chat(app(engine), **fields)
        (_, sampling, _) = engine.requests[-1]
        assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.7, 9, 0.1)
        assert (sampling.repetition_penalty, sampling.seed, sampling.max_tokens) == (1.2, 3, 3)
        assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.3, 0.2)
    whole = (await generate(app(engine), options={"stop": "s.", "num_predict": -1}, stream=False)).json
    assert (whole["response"], whole["done_reason"]) == ("Ye", "stop")
    assert (await chat(app(engine), options={"num_predict": 2}, stream=False)).json["done_reason"] == "length"


async def test_whole_default_sets_of_options_are_taken_and_what_has_no_effect_is_told() -> None:
    neutral = {
        "num_keep": 5, "typical_p": 1.0, "tfs_z": 1, "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1,
        "repeat_last_n": 64, "num_batch": 512, "num_gpu": -1, "main_gpu": 0, "use_mmap": True, "num_thread": 0,
        "numa": False, "low_vram": False, "f16_kv": True, "use_mlock": False, "draft_num_predict": 4, "num_ctx": 2048,
    }  # fmt: skip
    got = await chat(app(ids(END)), options=neutral, keep_alive="5m")
    assert got.status == 200, got.body
    assert "x-antiphon-ignored" not in got.headers
    assert "x-antiphon-warning" not in got.headers
    got = await chat(app(ids(END)), options={"num_ctx": 10**6, "repeat_last_n": 5, "rope": 1})
    assert "num_ctx is 1000000 and the model's context is 8192" in got.headers["x-antiphon-warning"]
    assert got.headers["x-antiphon-ignored"] == "options.rope, options.repeat_last_n, options.num_ctx"
    options = {"num_gpu": 99, "num_thread": 8, "num_ctx": 1000}
    got = await chat(app(ids(END)), options=options, keep_alive=0)
    assert got.headers["x-antiphon-ignored"] == "keep_alive, options.num_gpu, options.num_thread, options.num_ctx"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"options": {"temperature": 1}, "temperature": 0.5}, "options.temperature"),
        ({"options": {"format": "json"}, "format": {"type": "object"}}, "options.format"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"mirostat": 1}, "mirostat"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_what_cannot_be_honoured_is_refused_at_the_client_s_own_field(fields: dict[str, Any], named: str) -> None:
    for stream in (True, False):
        got = await post_in_process(
            chatting_and_embedding(), "/api/chat", **{"model": "smollm2", "messages": HI, "stream": stream, **fields}
        )
        assert got.status == 400, got.body
        assert got.json.keys() == {"error"}
        assert named in got.json["error"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("form", "answers"),
    [
        ("json", (dict,)),
        ({"type": "object", "properties": {"ok": {"const": 1}}, "required": ["ok"]}, (dict,)),
    ],
)
async def test_format_is_a_constraint_in_one_word_or_a_schema(form: object, answers: Any, stream: bool) -> None:
    application = chatting_and_embedding()
    for path, field in (("/api/chat", {"messages": HI}), ("/api/generate", {"prompt": "Hi"})):
        got = await post_in_process(application, path, model="smollm2", format=form, stream=stream, **field)
        answered = lines(got) if stream else [got.json]
        text = "".join(one["response"] if "response" in one else one["message"]["content"] for one in answered)
        assert isinstance(json.loads(text), answers)
    for nothing in ("", None):
        got = await post_in_process(application, path, model="smollm2", prompt="Hi", format=nothing, stream=False)
        assert got.json["response"] == "Hello!"


async def test_a_raw_prompt_is_read_as_it_stands() -> None:
    engine = scripted(ids("Yes.", END))
    assert (await generate(app(engine), raw=True, stream=False)).json["response"] == "Yes."
    assert decode(TOKENIZER, engine.requests[0][0]) == "Hi"
    for name, value in (("system", "x"), ("template", "x"), ("context", [1])):
        got = await generate(app(engine), raw=True, **{name: value})
        assert (got.status, got.json["error"]) == (400, "raw mode does not support template, system, or context")
    oss = replace(model(scripted([])), tokenizer=VOCABULARY, format=HARMONY)
    hidden = await generate(create_app(StaticCatalog({"small": oss})), raw=True)
    assert (hidden.status, hidden.json.keys()) == (403, {"error"})


async def test_a_suffix_is_filled_in_before_where_the_model_can() -> None:
    marks = Control("<|fim_prefix|>"), Control("<|fim_suffix|>"), Control("<|fim_middle|>")
    vocabulary = ByteTokenizer((*marks, END))
    engine = scripted([*b"middle", vocabulary.controls[END]])
    able = replace(model(engine), tokenizer=vocabulary, infill=FillInMiddle(*marks))
    application = create_app(StaticCatalog({"small": able}))
    assert (await generate(application, suffix="z", stream=False)).json["response"] == "middle"
    prefix, suffix, middle = (vocabulary.controls[mark] for mark in marks)
    assert engine.requests[0][0] == (prefix, *b"Hi", suffix, *b"z", middle)
    assert (await generate(application, prompt="", suffix="z", stream=False)).json["response"] == "middle"
    for fields in ({"suffix": "z"}, {"suffix": "z", "system": "s"}, {"template": "x"}, {"context": [1]}):
        got = await generate(app(ids(END)), **fields)
        assert (got.status, got.json["error"].partition(" ")[0]) == (400, [*fields][-1])


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize(
    ("keep_alive", "reason"), [(None, "load"), (-1, "load"), ("5m", "load"), (0, "unload"), ("0s", "unload")]
)
async def test_nothing_to_answer_loads_the_model_and_says_so_as_one_object(
    path: str, keep_alive: object, reason: str
) -> None:
    engine = scripted(ids("Yes.", END))
    without: list[dict[str, Any]] = [{}, {"messages": []}] if path == "/api/chat" else [{}, {"prompt": ""}]
    for nothing in without:
        got = await post_in_process(app(engine), path, model="small", keep_alive=keep_alive, **nothing)
        assert got.headers["content-type"] == "application/json"
        said = {"message": {"role": "assistant", "content": ""}} if path == "/api/chat" else {"response": ""}
        assert timeless(got.json) == {"model": "small", "done": True, "done_reason": reason, **said}
        assert ("x-antiphon-ignored" in got.headers) is (reason == "unload")
    assert engine.requests == []


@pytest.mark.parametrize("name", ["small", "small:latest", "SMALL", "Small:Latest"])
async def test_a_name_is_known_with_its_tag_and_in_any_case(name: str) -> None:
    got = await chat(app(ids("Yes.", END)), model=name, stream=False)
    assert (got.json["model"], got.json["message"]["content"]) == (name, "Yes.")


@pytest.mark.parametrize("name", ["small:7b", "smal", "../small", "small:", "hf.co/a/b:Q4_0"])
async def test_another_name_is_not_found(name: str) -> None:
    for path, field in (("chat", {"messages": HI}), ("generate", {}), ("embed", {"input": "x"}), ("show", {})):
        got = await post_in_process(app(ids(END)), f"/api/{path}", model=name, **field)
        assert got.status == 404
        assert got.json["error"].startswith(f"model {name!r} not found")


async def test_a_model_that_embeds_writes_nothing() -> None:
    for path, word in (("chat", "chat"), ("generate", "generate")):
        asked: dict[str, Any] = {"messages": HI} if path == "chat" else {"prompt": "Hi"}
        got = await post_in_process(chatting_and_embedding(), f"/api/{path}", model="minilm", **asked)
        assert (got.status, got.json["error"]) == (400, f'"minilm" does not support {word}')


async def test_log_probabilities_stand_beside_the_text() -> None:
    application = app(scripted(ids("Hi", END)))
    got = (await chat(application, logprobs=True, top_logprobs=2, stream=False)).json
    streamed = lines(await chat(application, logprobs=True, top_logprobs=2))
    assert [entry["token"] for entry in got["logprobs"]] == ["H", "i"]
    assert all(entry.keys() == {"token", "logprob", "bytes", "top_logprobs"} for entry in got["logprobs"])
    assert [entry for line in streamed for entry in line.get("logprobs", [])] == got["logprobs"]
    assert "logprobs" not in (await chat(application, stream=False)).json


async def test_a_silent_stream_says_lines_that_every_client_reads() -> None:
    got = await chat(app(scripted(ids("late", END), delay=0.1), limits=Limits(keep_alive=0.01)))
    quiet = [line for line in lines(got) if not line["message"]["content"] and not line["done"]]
    assert quiet
    assert "".join(line["message"]["content"] for line in lines(got)) == "late"


@pytest.mark.one_process("stops its process from within")
async def test_what_goes_wrong_in_mid_stream_is_the_last_line() -> None:
    application = stopping(app(scripted(ids("word " * 100), delay=0.001)))
    got = lines(await chat(application))
    assert got[-1].keys() == {"error"}
    assert not any(line["done"] for line in got[:-1])


def echo(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    return ids(decode(TOKENIZER, prompt).rpartition("<tool_response>")[2].partition("<")[0].strip(), END)


async def test_results_answer_the_oldest_call_of_their_tool_that_waits_else_the_oldest() -> None:
    called: list[dict[str, Any]] = [{"function": {"name": name, "arguments": {}}} for name in ("a", "b", "a")]
    said = {"role": "assistant", "content": "", "tool_calls": called}
    results = [
        {"role": "tool", "content": "of b", "tool_name": "b"},
        {"role": "tool", "content": "of a"},
        {"role": "tool", "content": "of a again", "tool_name": "c"},
    ]
    engine = scripted(echo)
    assert (await chat(app(engine), messages=[*HI, said, *results])).status == 200
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for i, name in enumerate("aba")
    ]
    answers = [
        {"role": "tool", "content": result["content"], "tool_call_id": id}
        for result, id in zip(results, ("c1", "c0", "c2"), strict=True)
    ]
    same = [*HI, {"role": "assistant", "content": "", "tool_calls": calls}, *answers]
    await post_in_process(app(engine), "/v1/chat/completions", messages=same)
    assert engine.requests[0][0] == engine.requests[1][0]
    # A result of nothing that was called is a result all the same.
    assert (await chat(app(engine), messages=[*HI, *results])).status == 200


@pytest.mark.parametrize("role", ["User", "USER", "user"])
async def test_roles_are_read_in_any_case(role: str) -> None:
    engine = scripted(ids(END))
    await chat(app(engine), messages=[{"role": role, "content": "Hi", "images": []}], tools=[])
    await chat(app(engine))
    assert engine.requests[0][0] == engine.requests[1][0]


async def test_the_oldest_messages_are_left_out_only_where_that_is_requested() -> None:
    long = [message for i in range(8) for message in (
        {"role": "user", "content": f"{i}" * 90}, {"role": "assistant", "content": "so"})]  # fmt: skip
    engine = scripted(ids("Yes.", END), context=300)
    refused = await chat(app(engine), messages=[*long, *HI])
    assert refused.status == 400
    assert "messages" in refused.json["error"]
    assert (await chat(app(engine), messages=[*long, *HI], truncate=True)).status == 200
    assert "777" in decode(TOKENIZER, engine.requests[0][0])
    assert "000" not in decode(TOKENIZER, engine.requests[0][0])


def test_a_body_is_json_whatever_it_is_said_to_be_but_not_from_a_web_page() -> None:
    body = json.dumps({"model": "small", "prompt": "Hi", "stream": False}).encode()
    form, text, page = "application/x-www-form-urlencoded", "text/plain", "https://elsewhere.example"
    with running(app(ids("Yes.", END), origins=[page])) as base:
        for kind in (form, text):
            assert request(base, "POST", "/api/generate", body, content_type=kind, origin=page).status == 415
            assert request(base, "POST", "/api/generate", body, content_type=kind).json["response"] == "Yes."
        assert request(base, "POST", "/api/generate", body).json["response"] == "Yes."
        named = {"content_type": "application/json", "origin": page}
        assert request(base, "POST", "/api/generate", body, **named).json["response"] == "Yes."
        assert request(base, "POST", "/api/generate", body, origin=page).status == 415


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by_id", [False, True])
async def test_a_tool_loop_goes_on_with_what_the_model_wrote_and_the_client_was_not_shown(
    stream: bool, by_id: bool
) -> None:
    engine = plays(*REPLIES)
    application = oss_app(engine)
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    for _ in CITIES:
        got = await chat(application, model="oss", messages=messages, tools=[CHAT_TOOL], stream=stream)
        assert b"SECRET" not in got.body
        told = [answer["message"] for answer in (lines(got) if stream else [got.json])]
        (called,) = [one for message in told for one in message.get("tool_calls", ())]
        named = {"tool_call_id": called["id"]} if by_id else {"tool_name": called["function"]["name"]}
        if not by_id:
            called = {"function": called["function"]}
        text = "".join(message["content"] for message in told)
        messages += [
            {"role": "assistant", "content": text, "tool_calls": [called]},
            {"role": "tool", "content": "18 degrees", **named},
        ]
    await chat(application, model="oss", messages=messages, tools=[CHAT_TOOL])
    check_goes_on(engine)


@pytest.mark.parametrize(("think", "switch"), [(True, "on"), ("high", "on"), (False, "off"), (None, "as it is")])
async def test_think_turns_the_switch_of_a_template(think: bool | str | None, switch: str) -> None:
    source = (
        "{% if enable_thinking is not defined %}as it is{% elif enable_thinking %}on{% else %}off{% endif %}"
        "{{ messages[0].content }}"
    )
    engine = scripted(ids("Yes.", END))
    switched = replace(model(engine), format=jinja_format(source, TOKENIZER.controls.keys()))
    assert (await chat(create_app(StaticCatalog({"small": switched})), think=think)).status == 200
    assert decode(TOKENIZER, engine.requests[0][0]) == f"{switch}Hi"
