"""Streamed and whole are one message."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_reply import CUTS, TEXTS, calls_of, chatml, harmony
from kit.api import post_in_process, scripted
from kit.messages import THINKING, USER, WEATHER, accumulated, checked, events_of, without_ids
from kit.responses import CALL, CHANNEL, CONSTRAIN, MESSAGE, responses_app

TO_WEATHER = (" to=functions.weather", CHANNEL, "commentary ", CONSTRAIN, "json", MESSAGE)
HARMONY_REPLIES = harmony(TEXTS.map(lambda text: (*TO_WEATHER, json.dumps({"city": text}), CALL)))
CHATML_REPLIES = chatml(calls_of("weather", "city"))


@settings(max_examples=40, deadline=None)
@given(
    replies=st.one_of(st.tuples(st.just("oss"), HARMONY_REPLIES), st.tuples(st.just("small"), CHATML_REPLIES)),
    cuts=CUTS,
    limit=st.integers(1, 60),
    thinking=st.sampled_from([None, THINKING]),
    expose=st.booleans(),
)
async def test_a_stream_and_a_whole_message_agree(
    replies: tuple[str, list[int]], cuts: tuple[int, int], limit: int, thinking: Any, expose: bool
) -> None:
    model, reply = replies
    body = {"model": model, "messages": [USER], "tools": [WEATHER], "max_tokens": limit, "thinking": thinking}

    async def answered(chunk: int, *, stream: bool) -> Any:
        engine = scripted(reply, chunk=chunk)
        application = responses_app(**{model: engine}, expose_reasoning=expose)
        return await post_in_process(application, "/v1/messages", **body, stream=stream)

    whole = checked((await answered(cuts[1], stream=False)).json)
    events = events_of(await answered(cuts[0], stream=True))
    calls = [event["index"] for event in events if event.get("content_block", {}).get("type") == "tool_use"]
    if len(calls) > sum(block["type"] == "tool_use" for block in whole["content"]):
        cut = calls[-1]  # A call that its limit cut is closed in a stream, and no block of a whole answer.
        events = [event for event in events if event.get("index") != cut]
    assert without_ids(accumulated(events)) == without_ids(whole)
    shown = [block for block in whole["content"] if block["type"] == "thinking" and block["thinking"]]
    assert not shown or (expose and thinking)
