"""Chat completions with tools that run on this side: by the request's word, or the server owner's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import openai
import pytest

from antiphon.conversation import ToolSpec
from antiphon.http.gate.keys import new_key
from antiphon.tokens import decode
from antiphon.tools import FunctionToolSet, Toolbox, ToolCall, ToolOutput
from antiphon.tools.call import DescribedTool, DescribedToolSet
from kit.api import END, TOKENIZER, app, call, replies, running


def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


@pytest.fixture
async def toolbox() -> AsyncIterator[Toolbox]:
    async with aclosing(Toolbox([FunctionToolSet([shout])])) as box:
        yield box


def call_shout(text: str) -> tuple[Any, ...]:
    return (*call("shout", json.dumps({"text": text})), END)


def final(text: str) -> tuple[Any, ...]:
    return (text, END)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_to_our_tool_is_run_here_and_the_client_sees_the_answer_alone(toolbox: Toolbox, stream: bool) -> None:
    engine = replies(call_shout("hi"), final("It said HI."))
    with running(app(engine, tools=toolbox)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        request: Any = {"model": "small", "messages": [{"role": "user", "content": "x"}]}
        request["extra_body"] = {"server_tools": ["shout"]}
        if stream:
            chunks = list(client.chat.completions.create(**request, stream=True))
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            assert not any(chunk.choices[0].delta.tool_calls for chunk in chunks if chunk.choices)
            reason = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1]
        else:
            answer = client.chat.completions.create(**request)
            assert answer.usage is not None
            assert answer.usage.prompt_tokens == sum(len(prompt) for prompt, *_ in engine.requests)
            assert answer.choices[0].message.tool_calls is None
            text, reason = answer.choices[0].message.content or "", answer.choices[0].finish_reason
        assert (text, reason) == ("It said HI.", "stop")
        assert "HI" in decode(TOKENIZER, engine.requests[1][0])


class OwnersShout(DescribedTool):
    """Answers whose call it is."""

    spec = ToolSpec("shout", "Says whose call it is.")

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(content=f"a call of {call.owner}")


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_stored_is_the_one_answer_after_our_tools(toolbox: Toolbox, stream: bool) -> None:
    engine = replies(call_shout("hi"), final("It said HI."))
    with running(app(engine, tools=toolbox)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        request: Any = {"model": "small", "messages": [{"role": "user", "content": "x"}], "store": True}
        request["extra_body"] = {"server_tools": ["shout"]}
        if stream:
            id = list(client.chat.completions.create(**request, stream=True))[-1].id
        else:
            id = client.chat.completions.create(**request).id
        (stored,) = client.chat.completions.list()
    assert (stored.id, stored.choices[0].message.content) == (id, "It said HI.")
    assert stored.choices[0].message.tool_calls is None
    assert stored.usage is not None
    assert stored.usage.prompt_tokens == sum(len(prompt) for prompt, *_ in engine.requests)


def test_a_tool_knows_whose_request_it_serves() -> None:
    secret, alice = new_key("alice")
    engine = replies((*call("shout", "{}"), END), final("Noted."))
    tools = Toolbox([DescribedToolSet([OwnersShout()])])
    with (
        running(app(engine, tools=tools, keys=[alice])) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key=secret) as client,
    ):
        asked: Any = {"model": "small", "messages": [{"role": "user", "content": "x"}]}
        client.chat.completions.create(**asked, extra_body={"server_tools": True})
    assert "a call of alice" in decode(TOKENIZER, engine.requests[1][0])


def test_without_the_request_s_word_our_tools_are_not_offered(toolbox: Toolbox) -> None:
    engine = replies(final("plain"))
    with running(app(engine, tools=toolbox)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}])
    assert "shout" not in decode(TOKENIZER, engine.requests[0][0])


def test_the_owner_may_offer_them_in_every_request_and_a_request_may_decline(toolbox: Toolbox) -> None:
    engine = replies(final("a"), final("b"))
    with (
        running(app(engine, tools=toolbox, offer_tools=True)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client,
    ):
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}])
        client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "x"}], extra_body={"server_tools": False}
        )
    offered, declined = (decode(TOKENIZER, prompt) for prompt, *_ in engine.requests)
    assert "shout" in offered
    assert "shout" not in declined


def test_the_caller_s_own_function_goes_back_to_the_caller(toolbox: Toolbox) -> None:
    both = (*call("shout", '{"text": "hi"}'), *call("mine", "{}"), END)
    engine = replies(both)
    tools: Any = [{"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}]
    with running(app(engine, tools=toolbox)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        answer = client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": "x"}],
            tools=tools,
            extra_body={"server_tools": True},
        )
    assert answer.choices[0].finish_reason == "tool_calls"
    calls: Any = answer.choices[0].message.tool_calls
    assert [one.function.name for one in calls] == ["mine"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"server_tools": ["rm"]}, "server_tools[0]"),
        ({"server_tools": True, "n": 2}, "n"),
        ({"server_tools": "shout"}, "server_tools"),
        ({"server_tools": True, "session_id": "s"}, "session_id"),
        (
            {"server_tools": True, "tools": [{"type": "function", "function": {"name": "shout"}}]},
            "tools[0].function.name",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(toolbox: Toolbox, body: dict[str, Any], param: str) -> None:
    with running(app(replies(), tools=toolbox)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}], extra_body=body)
        assert caught.value.param == param


def test_a_tool_that_there_is_not_is_answered_with_those_like_it(toolbox: Toolbox) -> None:
    with (
        running(app(replies(), tools=toolbox)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client,
        pytest.raises(openai.BadRequestError, match=r"no tool 'shuot'.*Did you mean shout"),
    ):
        client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "x"}], extra_body={"server_tools": ["shuot"]}
        )


def test_a_server_without_tools_says_so() -> None:
    body = {"server_tools": True}
    with (
        running(app(replies())) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client,
        pytest.raises(openai.BadRequestError, match="no tools"),
    ):
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}], extra_body=body)
