"""Through Ollama's API: the same answer as through chat, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.wire.projection import arguments_object
from kit.any_reply import CUTS, LOOKING, MARKS, STOPS, chatml
from kit.api import Got, app, in_process, post_in_process, scripted

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "find")]


def assembled(got: Got, *, stream: bool) -> dict[str, Any]:
    """What a client puts together; the ids of calls are random, and so are times."""
    assert got.status == 200, got.body
    answers = [json.loads(line) for line in got.body.splitlines()]
    assert stream or len(answers) == 1
    assert [answer["done"] for answer in answers] == [False] * (len(answers) - 1) + [True]
    messages = [answer.get("message", {"content": answer.get("response", "")}) for answer in answers]
    calls = [one for message in messages for one in message.get("tool_calls", [])]
    assert [one["function"]["index"] for one in calls] == list(range(len(calls)))
    return {
        "content": "".join(message["content"] for message in messages),
        "thinking": "".join(message.get("thinking", "") for message in messages),
        "calls": [one["function"] for one in calls],
        **{name: answers[-1].get(name) for name in ("done_reason", "prompt_eval_count", "eval_count")},
    }


@settings(max_examples=40, deadline=None)
@given(
    reply=chatml(LOOKING, MARKS, most=6),
    cuts=CUTS,
    limit=st.one_of(st.none(), st.integers(0, 40)),
    stop=STOPS,
    expose=st.booleans(),
    offered=st.booleans(),
)
async def test_a_stream_a_whole_answer_and_chat_agree(
    reply: list[int],
    cuts: tuple[int, int],
    limit: int | None,
    stop: list[str] | None,
    expose: bool,
    offered: bool,
) -> None:
    one, other, third = (
        app(scripted(lambda prompt, sampling, choice: reply, chunk=cut), expose_reasoning=expose) for cut in (*cuts, 1)
    )
    tools = TOOLS if offered else []
    fields: dict[str, Any] = {
        "model": "small",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": tools,
        "options": {"num_predict": limit, "stop": stop},
    }
    whole = await post_in_process(one, "/api/chat", **fields, stream=False)
    streamed = await post_in_process(other, "/api/chat", **fields)
    assert assembled(whole, stream=False) == (answer := assembled(streamed, stream=True))
    (choice,) = (await in_process(third, max_tokens=limit, stop=stop, tools=tools)).json["choices"]
    said = choice["message"]
    assert answer["content"] == (said["content"] or "")
    assert answer["thinking"] == said.get("reasoning", "")
    assert [(one["name"], one["arguments"]) for one in answer["calls"]] == [
        (one["function"]["name"], arguments_object(one["function"]["arguments"])) for one in said.get("tool_calls", ())
    ]
    assert (answer["done_reason"] == "length") is (choice["finish_reason"] == "length")
