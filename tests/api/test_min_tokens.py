"""How soon an answer may end, where the engine says that it heeds it, and whether the stop that ended it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines.engine import SAMPLING
from kit.api import END, app, ids, post_in_process, scripted
from kit.obliging import ENDS, constrained

SAID = "One, two. Three, four."
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Count."}]}
TEXT: dict[str, Any] = {"prompt": "Count."}
PLACES = [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)]


def able(said: str = SAID, **options: Any) -> Any:
    return scripted(ids(said, END), honours=SAMPLING | {"min_tokens"}, **options)


@pytest.mark.parametrize(("path", "least"), [*PLACES, ("/v1/fim/completions", TEXT)])
async def test_an_engine_that_heeds_it_is_told_how_many_tokens_come_at_least(path: str, least: dict[str, Any]) -> None:
    engine = able()
    for fields in ({"min_tokens": 5}, {"min_new_tokens": 5}, {"min_tokens": 0}, {"min_tokens": 9, "max_tokens": 9}):
        got = await post_in_process(app(engine), path, **least, **({"max_tokens": 64} | fields))
        assert got.status == 200, got.body
    told = [(sampling.min_tokens, sampling.ignore_eos) for _, sampling, _ in engine.requests]
    assert told == [(5, False), (5, False), (0, False), (0, True)]
    negative = await post_in_process(app(engine), path, **least, min_tokens=-1)
    assert (negative.status, negative.error["param"]) == (400, "min_tokens")


@pytest.mark.parametrize(("path", "least"), PLACES)
async def test_another_engine_takes_it_only_as_large_as_the_limit(path: str, least: dict[str, Any]) -> None:
    engine = scripted(ids(SAID, END))
    got = await post_in_process(app(engine), path, **least, min_new_tokens=5, max_tokens=9)
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", "min_new_tokens")
    got = await post_in_process(app(engine), path, **least, min_tokens=9, max_tokens=9)
    assert (got.status, got.json["usage"]["completion_tokens"]) == (200, 9)


async def test_a_reply_that_follows_a_grammar_ends_where_that_says_so() -> None:
    asked: list[dict[str, Any]] = [
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
    ]
    for fields in asked:
        application = create_app(StaticCatalog({"small": constrained(able("{}", end_ids=ENDS))}))
        got = await post_in_process(application, "/v1/chat/completions", **CHAT, **fields, min_tokens=5)
        assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", "min_tokens")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["include_stop_str_in_output", "no_stop_trim"])
@pytest.mark.parametrize("chunk", [1, 4, 100])
async def test_the_stop_that_ended_an_answer_is_its_end_where_that_is_requested(
    chunk: int, name: str, stream: bool
) -> None:
    application = app(scripted(ids(SAID, END), chunk=chunk))
    for path, least in PLACES:
        for stop, begins in (("wo. T", "One, t"), ([".", "never"], "One, two"), ("never", SAID), ("Onward", SAID)):
            found = "" if begins == SAID else stop if isinstance(stop, str) else stop[0]
            for included in (True, False):
                got = await post_in_process(application, path, **least, stop=stop, stream=stream, **{name: included})
                assert said(got, stream=stream) == begins + (found if included else "")


def said(got: Any, *, stream: bool) -> str:
    assert got.status == 200, got.body
    if not stream:
        (choice,) = got.json["choices"]
        return str(choice.get("text", choice.get("message", {}).get("content")))
    choices = [event["choices"][0] for event in got.events[:-1]]
    return "".join(choice.get("text", choice.get("delta", {}).get("content", "")) for choice in choices)


@pytest.mark.parametrize("chunk", [1, 100])
async def test_the_log_probabilities_are_those_of_the_text_that_is_shown(chunk: int) -> None:
    application = app(scripted(ids(SAID, END), chunk=chunk))
    for included, text in ((True, "One, two. "), (False, "One, tw")):
        fields: dict[str, Any] = {"stop": "o. ", "logprobs": True, "include_stop_str_in_output": included}
        (choice,) = (await post_in_process(application, "/v1/chat/completions", **CHAT, **fields)).json["choices"]
        assert choice["message"]["content"] == text
        assert "".join(one["token"] for one in choice["logprobs"]["content"]) == text
