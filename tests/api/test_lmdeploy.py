"""LMDeploy's dialect where it differs from OpenAI's: what its own client has always sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.api.dialects import DIALECTS, lmdeploy
from antiphon.wire.dialect import Dialect
from kit.api import END, Got, app, ids, post_in_process, scripted
from kit.waiting import until

HELLO = ids("Hello", END)
USER = {"role": "user", "content": "Hi"}
PATH = "/lmdeploy/v1/chat/completions"


async def ask(engine: Any, path: str = PATH, *, strict: bool = False, **fields: Any) -> Got:
    return await post_in_process(app(engine, dialects=[lmdeploy(strict=strict)]), path, **fields)


@pytest.mark.spec("LMD-30", "LMD-32")
@pytest.mark.parametrize("strict", [False, True])
async def test_messages_may_be_one_text_which_is_a_users(strict: bool) -> None:
    engine = scripted(HELLO)
    for messages in ("Hi \u00e9", [{**USER, "content": "Hi \u00e9"}]):
        assert (await ask(engine, strict=strict, messages=messages)).status == 200
    one, other = (prompt for prompt, _, _ in engine.requests)
    assert one == other


async def test_in_a_session_the_text_is_its_next_turn() -> None:
    engine = scripted(HELLO)
    application = app(engine)
    for text in ("One?", "Two?"):
        got = await post_in_process(application, PATH, messages=text, session_id=7)
        assert got.json["choices"][0]["message"]["content"] == "Hello"
    whole = [USER | {"content": "One?"}, {"role": "assistant", "content": "Hello"}, USER | {"content": "Two?"}]
    await post_in_process(application, PATH, messages=whole)
    assert engine.requests[1][0] == engine.requests[2][0]


@pytest.mark.parametrize("dialect", [one for one in DIALECTS if one.name != "lmdeploy"], ids=lambda one: one.name)
async def test_to_other_dialects_messages_are_a_list(dialect: Dialect) -> None:
    application = app(HELLO, dialects=[dialect])
    got = await post_in_process(application, f"{dialect.places[0]}/chat/completions", model="small", messages="Hi")
    assert got.status in (400, 422)
    assert b"messages" in got.body


@pytest.mark.parametrize(
    "fields", [{"messages": 1}, {"messages": True}, {"messages": {"role": "user"}}, {"stop": True}]
)
async def test_what_is_neither_a_text_nor_a_list_is_refused(fields: dict[str, Any]) -> None:
    got = await ask(HELLO, **{"messages": [USER], **fields})
    assert (got.status, got.json["param"]) == (400, next(iter(fields)))


async def test_the_body_of_its_client_is_taken_as_it_is() -> None:
    """What `APIClient.chat_completions_v1` says of its own accord, the oldest and the newest."""
    always: dict[str, Any] = {
        "temperature": 0.7,
        "top_p": 1.0,
        "n": 1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "user": None,
    }
    oldest = {"stop": False, "stream": False, "session_id": -1, "ignore_eos": False, "max_tokens": 512}
    newest = {
        "logprobs": False, "top_logprobs": 0, "stop": None, "stream": False, "ignore_eos": False, "top_k": 40,
        "skip_special_tokens": True, "spaces_between_special_tokens": True, "min_new_tokens": None, "min_p": 0.0,
        "logit_bias": None, "stream_options": None, "max_completion_tokens": None, "repetition_penalty": 1.0,
    }  # fmt: skip
    for fields in (oldest, newest):
        got = await ask(scripted(HELLO), messages="Hi", **always, **fields)
        assert got.json["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.parametrize("task", [{"prompt": "Hi"}, {"messages": "Hi"}], ids=["completion", "chat"])
async def test_of_two_limits_the_newer_name_counts(task: dict[str, Any]) -> None:
    path = "/lmdeploy/v1/completions" if "prompt" in task else PATH
    for fields, tokens in (
        ({"max_tokens": 4, "max_completion_tokens": 2}, 2),
        ({"max_tokens": 2, "max_completion_tokens": 4}, 4),
        ({"max_tokens": 3, "max_completion_tokens": None}, 3),
    ):
        assert (await ask(HELLO, path, **task, **fields)).json["usage"]["completion_tokens"] == tokens


async def test_a_stop_that_is_true_ends_a_sessions_answer_and_a_false_one_is_none() -> None:
    engine = scripted(ids("word " * 1500), delay=0.001)
    application = app(engine)
    fields: dict[str, Any] = {"session_id": 7, "interactive_mode": True}
    path = "/lmdeploy/v1/chat/interactive"
    running = asyncio.create_task(post_in_process(application, path, prompt="Hi", stop=False, **fields))
    await until(lambda: engine.running == 1)
    stopped = await post_in_process(application, path, prompt="", stop=True, **fields)
    assert stopped.json["text"] == ""
    assert (await running).status == 409
    await until(lambda: engine.running == 0)


async def test_encode_gives_the_ids_that_a_prompt_or_a_chat_has() -> None:
    application = app(HELLO)

    async def encoded(**fields: Any) -> Any:
        return (await post_in_process(application, "/lmdeploy/v1/encode", **fields)).json

    async def tokens(**fields: Any) -> Any:
        return (await post_in_process(application, "/v1/tokenize", **fields)).json["tokens"]

    prompt, chat = await tokens(prompt="Hi"), await tokens(messages=[USER])
    assert await encoded(input="Hi", do_preprocess=False, add_bos=True) == {"input_ids": prompt, "length": len(prompt)}
    assert await encoded(input="Hi", add_bos=False) == {"input_ids": prompt, "length": len(prompt)}
    assert await encoded(input="Hi", do_preprocess=True) == {"input_ids": chat, "length": len(chat)}
    assert await encoded(input=["Hi", ""]) == {"input_ids": [prompt, []], "length": [len(prompt), 0]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [1]}, "input[0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": ["a", "b" * 9000]}, "input[1]"),
        ({"input": "a", "add_bos": "yes"}, "add_bos"),
        ({"input": "a", "do_preprocess": True, "add_bos": False}, "add_bos"),
    ],
)
async def test_what_cannot_be_encoded_is_refused_by_its_place(fields: dict[str, Any], path: str) -> None:
    got = await post_in_process(app(HELLO), "/lmdeploy/v1/encode", **fields)
    assert (got.status, got.json["param"]) == (400, path)
