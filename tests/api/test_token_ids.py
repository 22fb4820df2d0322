"""Ids in and out: what a prompt was and what was sampled, in every form of an answer, and to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Limits
from antiphon.engines import SAMPLING, ScriptedEngine
from antiphon.formats.template import template_format
from antiphon.generation import Model
from kit.api import CHATML, END, START, THINK, TOKENIZER, UNTHINK, Got, chat, ids, post, running, scripted, served
from kit.responses import responses_app

SAID = ids(THINK, "Hm — 漢.", UNTHINK, "Fine, 😀.", END)
PROMPT = ids(START, "user\nHi", END, "\n", START, "assistant\n")
FIELDS: dict[str, Any] = {"return_token_ids": True}


def engine(chunk: int = 3) -> ScriptedEngine:
    return scripted(SAID, chunk=chunk)


base = served(lambda: responses_app(small=engine(), expose_reasoning=True))


def answered(got: Got) -> Any:
    assert got.status == 200, got.body
    return got.json


def test_a_chat_tells_its_prompt_once_and_each_choice_what_was_sampled(base: str) -> None:
    answer = answered(chat(base, **FIELDS, n=2))
    assert answer["prompt_token_ids"] == PROMPT
    assert [choice["token_ids"] for choice in answer["choices"]] == [SAID, SAID], "thoughts, marks and ends too"
    assert answer["usage"]["completion_tokens"] == 2 * len(SAID)


def test_a_streamed_chat_tells_the_same_in_pieces(base: str) -> None:
    *events, done = chat(base, **FIELDS, n=2, stream=True).events
    assert done == "[DONE]"
    assert [event.get("prompt_token_ids") for event in events] == [PROMPT] + [None] * (len(events) - 1)
    choices = [choice for event in events for choice in event["choices"]]
    for index in range(2):
        sent = [choice["token_ids"] for choice in choices if choice["index"] == index]
        assert [id for part in sent for id in part] == SAID
        assert len(sent) > 5


def test_completions_tell_the_ids_of_each_choice_and_its_prompt(base: str) -> None:
    answer = answered(post(base, "/v1/completions", prompt=["a", "bc"], n=2, use_raw_prompt=True, **FIELDS))
    prompts = [choice["prompt_token_ids"] for choice in answer["choices"]]
    assert prompts == [ids("a"), ids("a"), ids("bc"), ids("bc")]
    assert [choice["token_ids"] for choice in answer["choices"]] == [SAID] * 4


def test_a_response_tells_them_whole_and_event_by_event(base: str) -> None:
    answer = answered(post(base, "/v1/responses", input="Hi", **FIELDS))
    assert (answer["prompt_token_ids"], answer["token_ids"]) == (PROMPT, SAID)
    got = post(base, "/v1/responses", input="Hi", stream=True, **FIELDS)
    events = [event for event in events_of(got) if event != "[DONE]"]
    assert events[0]["response"]["prompt_token_ids"] == PROMPT
    assert [id for event in events for id in event.get("token_ids", [])] == SAID
    assert events[-1]["response"]["token_ids"] == SAID


def events_of(got: Got) -> list[Any]:
    parts = [part.partition("data: ")[2] for part in got.body.decode().split("\n\n") if part]
    return [part if part == "[DONE]" else json.loads(part) for part in parts]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_who_asks_for_no_ids_gets_none(base: str, path: str) -> None:
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]} if "chat" in path else {"input": "Hi"}
    for stream in (False, True):
        got = post(base, path, stream=stream, **({"prompt": "Hi"} if path == "/v1/completions" else fields))
        assert got.status == 200
        assert b"token_ids" not in got.body


def test_what_was_sampled_ends_where_the_reply_does(base: str) -> None:
    assert answered(chat(base, **FIELDS, max_tokens=4))["choices"][0]["token_ids"] == SAID[:4]
    stopped = answered(chat(base, **FIELDS, stop="Fine"))["choices"][0]["token_ids"]
    assert stopped == SAID[: len(stopped)]
    assert stopped[-1:] == ids("e"), "the last id that was read"
    assert answered(chat(base, **FIELDS, max_tokens=0))["choices"][0]["token_ids"] == []


OF_IDS = [{"return_token_ids": True}, {"prompt_logprobs": 0}]


@pytest.mark.parametrize("fields", OF_IDS)
def test_a_server_that_hides_reasoning_tells_no_ids_that_may_be_some(fields: dict[str, Any]) -> None:
    with running(responses_app(small=engine(), oss=engine())) as base:
        for model in ("small", "oss"):
            for stream in (False, True)[: 1 if "prompt_logprobs" in fields else 2]:
                got = chat(base, model=model, stream=stream, **fields)
                assert got.status == 403
                assert got.error["message"].startswith(next(iter(fields)))
        if "return_token_ids" in fields:
            got = post(base, "/v1/responses", model="small", input="Hi", **fields)
            assert got.status == 403
            assert got.error["message"].startswith("return_token_ids")


def test_a_model_that_never_reasons_tells_them_on_any_server() -> None:
    with running(plain(engine())) as base:
        assert answered(chat(base, **FIELDS))["choices"][0]["token_ids"] == SAID


def plain(engine: ScriptedEngine) -> Starlette:
    """A model whose template has no place for reasoning."""
    format = template_format("chatml", TOKENIZER.controls.keys())
    model = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=format)
    return create_app(StaticCatalog({"small": model}))


def test_an_engine_without_ids_refuses_by_name() -> None:
    with running(plain(scripted(SAID, honours=SAMPLING - {"return_token_ids"}))) as base:
        got = chat(base, **FIELDS)
        assert (got.status, got.error["param"]) == (400, "return_token_ids")


def test_a_prompt_of_a_chat_is_scored_token_by_token() -> None:
    with running(plain(engine())) as base:
        rows = answered(chat(base, prompt_logprobs=2))["prompt_logprobs"]
        assert rows[0] is None
        assert [next(iter(row)) for row in rows[1:]] == [str(id) for id in PROMPT[1:]]
        assert all(len(row) == 2 and row[str(id)]["rank"] == 1 for row, id in zip(rows[1:], PROMPT[1:], strict=True))
        end = TOKENIZER.controls[END]
        assert rows[PROMPT.index(end)][str(end)]["decoded_token"] == "<|im_end|>"
        assert "prompt_logprobs" not in answered(chat(base))
        got = chat(base, prompt_logprobs=2, stream=True)
        assert (got.status, got.error["param"]) == (400, "prompt_logprobs")


def test_more_tokens_than_the_limit_are_not_scored() -> None:
    application = create_app(
        StaticCatalog({"small": Model(name="small", engine=engine(), tokenizer=TOKENIZER, format=CHATML)}),
        limits=Limits(max_scored_tokens=5),
    )
    with running(application) as base:
        for fields in ({"echo": True, "logprobs": 1}, {"prompt_logprobs": 1}):
            for prompt in ("abcdef", ["abc", "abc"]):
                got = post(base, "/v1/completions", prompt=prompt, use_raw_prompt=True, **fields)
                assert (got.status, got.error["param"]) == (400, next(iter(fields)))
            assert answered(post(base, "/v1/completions", prompt="abcde", use_raw_prompt=True, **fields))
