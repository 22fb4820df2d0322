"""Replies that nobody streams: an engine that can is asked for all of one at once, and its answer is the same."""

from __future__ import annotations

import re
from typing import Any

import pytest

from antiphon.api import Limits
from antiphon.engines import ScriptedEngine
from kit.api import END, THINK, UNTHINK, app, call, exchange, ids, in_process, post_in_process, scripted
from kit.call_ids import numbered

REPLY = ids(
    THINK, "Rain é?", UNTHINK, "I look, twice.", *call("f", '{"a": "b\\"é", "c": [1]}'), *call("f", "{}"), END, "?"
)
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
FREE: dict[str, Any] = {"tools": TOOLS}


def engine(*, whole: bool) -> ScriptedEngine:
    return scripted(REPLY, whole=whole, grammar=False)


async def asked(fields: dict[str, Any], **options: Any) -> bool:
    """Whether the engine was asked for a whole reply."""
    played = engine(whole=True)
    got = await in_process(app(played, **options), **fields)
    assert got.status == 200
    ((_, sampling, _),) = played.requests
    return sampling.whole


@pytest.mark.parametrize("fields", [FREE, {**FREE, "n": 3}, {**FREE, "ignore_eos": True, "max_tokens": 9}, {}])
async def test_a_whole_reply_becomes_the_answer_that_a_streamed_one_becomes(fields: dict[str, Any]) -> None:
    assert await asked(fields)
    whole, streamed = [(await in_process(app(engine(whole=whole)), **fields)).json for whole in (True, False)]
    for answer in (whole, streamed):
        del answer["id"], answer["created"]
    assert numbered(whole) == numbered(streamed)


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True},
        {"stop": ["twice"]},
        {**FREE, "parallel_tool_calls": False},
        {"logprobs": True},
    ],
)
async def test_one_that_may_have_to_end_early_or_is_long_is_streamed(fields: dict[str, Any]) -> None:
    assert not await asked(fields)


async def test_who_limits_the_time_to_the_first_token_still_has_that_limit() -> None:
    assert not await asked({}, limits=Limits(first_token_timeout=60))
    assert await asked({}, limits=Limits(turn_timeout=60))


async def test_other_routes_ask_for_whole_replies_too() -> None:
    played = engine(whole=True)
    served = app(played)
    messages = [{"role": "user", "content": "Hi"}]
    for path, fields in {
        "/v1/completions": {"prompt": ["Hi", "Ho"], "max_tokens": 99},
        "/v1/messages": {"messages": messages, "max_tokens": 99, "model": "small"},
        "/api/chat": {"messages": messages, "stream": False, "model": "small"},
    }.items():
        assert (await post_in_process(served, path, **fields)).status == 200, path
    assert [sampling.whole for _, sampling, _ in played.requests] == [True] * 4


@pytest.mark.parametrize("whole", [True, False])
async def test_nobody_knows_when_the_first_token_of_a_whole_reply_was_there(whole: bool) -> None:
    served = app(engine(whole=whole))
    got = await in_process(served)
    assert ("first;dur" in got.headers["server-timing"]) is not whole
    metrics = (await exchange(served, "/metrics", {}, [], method="GET")).body.decode()
    for name in ("time_to_first_token", "inter_token"):
        found = re.search(rf'antiphon_{name}_seconds_count{{model="small"}} (\d+)', metrics)
        assert bool(found and int(found[1])) is not whole, name
    assert f'antiphon_completion_tokens_total{{model="small"}} {len(REPLY) - 1}.0' in metrics
