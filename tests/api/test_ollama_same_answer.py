"""Through Ollama's API: the same prompt as through chat, and the same answer, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.wire.projection import arguments_object
from kit.any_reply import ARGUMENTS, CUTS, LOOKING, MARKS, STOPS, TEXTS, chatml
from kit.api import END, Got, app, exchange_bytes, ids, in_process, post_in_process, scripted

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


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A conversation as chat has it, and as Ollama does."""
    chat: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    if draw(st.booleans()):
        chat.append({"role": "system", "content": draw(TEXTS)})
        theirs.append(chat[-1])
    for _ in range(draw(st.integers(0, 3))):
        chat.append({"role": "user", "content": draw(TEXTS)})
        theirs.append(chat[-1])
        calls = draw(st.lists(st.tuples(st.sampled_from(["look", "find"]), ARGUMENTS), max_size=3))
        text, thought = draw(st.one_of(st.just(""), TEXTS)), draw(st.one_of(st.none(), TEXTS))
        numbered = [(f"{len(chat)}-{i}", name, arguments) for i, (name, arguments) in enumerate(calls)]
        called = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in numbered
        ]
        objects = [{"function": {"name": name, "arguments": json.loads(arguments)}} for _, name, arguments in numbered]
        chat.append({"role": "assistant", "content": text, "tool_calls": called or None, "reasoning": thought})
        theirs.append({"role": "assistant", "content": text, "tool_calls": objects or None, "thinking": thought})
        for id, name, _ in numbered:
            result = draw(TEXTS)
            chat.append({"role": "tool", "content": result, "tool_call_id": id})
            theirs.append({"role": "tool", "content": result, **draw(st.sampled_from([{}, {"tool_name": name}]))})
    question = {"role": "user", "content": draw(TEXTS)}
    return [*chat, question], [*theirs, question]


@settings(max_examples=40, deadline=None)
@given(conversation=turns(), offered=st.booleans())
async def test_a_conversation_is_the_same_prompt_as_through_chat(
    conversation: tuple[list[dict[str, Any]], list[dict[str, Any]]], offered: bool
) -> None:
    chat, theirs = conversation
    engine = scripted(ids("Yes.", END))
    application = app(engine)
    first = await in_process(application, messages=chat, tools=TOOLS if offered else None)
    body = {"model": "small", "messages": theirs, "tools": TOOLS if offered else [], "stream": False}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)  # a call's object is read as it is spelt
    second = await exchange_bytes(application, "/api/chat", text.encode(), [])
    assert (first.status, second.status) == (200, 200), (first.body, second.body)
    assert engine.requests[0][0] == engine.requests[1][0]
