"""Anthropic's own client against a real socket: whole, streamed with its helper, tools, tokens, models, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from antiphon.api import create_app
from antiphon.http.gate.keys import new_key
from kit.api import served
from kit.messages import WEATHER
from kit.obedient import catalog

SECRET, KEY = new_key("a")
ORDER: Any = {"role": "user", "content": 'call: weather {"city": "Bern"}'}


url = served(lambda: create_app(catalog(), keys=[KEY], expose_reasoning=True))


@pytest.fixture(scope="module", params=["", "/anthropic"])
def client(url: str, request: pytest.FixtureRequest) -> Iterator[Anthropic]:
    with Anthropic(base_url=url + request.param, api_key=SECRET, max_retries=0) as client:
        yield client


def say(text: str) -> Any:
    return {"role": "user", "content": f"say: {text}"}


def test_a_message(client: Anthropic) -> None:
    message = client.messages.create(model="small", max_tokens=100, messages=[say("Hello there.")])
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "Hello there."}]
    assert (message.stop_reason, message.model, message.role) == ("end_turn", "small", "assistant")
    assert message._request_id
    assert message._request_id.startswith("req_")


def test_the_helper_of_streams(client: Anthropic) -> None:
    with client.messages.stream(
        model="oss", max_tokens=300, messages=[say("Hello there.")], thinking={"type": "adaptive"}
    ) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == "Hello there."
    assert [block.type for block in message.content] == ["thinking", "text"]
    thought, answer = message.content
    assert thought.type == "thinking"
    assert (thought.thinking, bool(thought.signature)) == ("An order.", True)
    assert answer.type == "text"
    assert message.usage.output_tokens > 10


@pytest.mark.parametrize("model", ["small", "oss"])
def test_a_tool_is_called_and_its_result_is_read(client: Anthropic, model: str) -> None:
    tools: Any = [WEATHER]
    thinking: Any = {"type": "adaptive"}
    history: list[Any] = [ORDER]
    with client.messages.stream(
        model=model, max_tokens=300, messages=history, tools=tools, thinking=thinking
    ) as stream:
        first = stream.get_final_message()
    assert first.stop_reason == "tool_use"
    (used,) = [block for block in first.content if block.type == "tool_use"]
    assert (used.name, used.input) == ("weather", {"city": "Bern"})
    history.append({"role": "assistant", "content": first.content})
    history.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": used.id, "content": "sunny"}]})
    counted = client.messages.count_tokens(model=model, messages=history, tools=tools, thinking=thinking)
    second = client.messages.create(model=model, max_tokens=300, messages=history, tools=tools, thinking=thinking)
    assert second.content[-1].to_dict() == {"type": "text", "text": "it said: sunny"}
    assert second.usage.input_tokens == counted.input_tokens


def test_models(client: Anthropic) -> None:
    assert [model.id for model in client.models.list(limit=2)] == ["small", "oss", "count"]
    assert client.models.retrieve("oss").display_name == "oss"


def test_errors_are_its_own_kinds(client: Anthropic, url: str) -> None:
    with pytest.raises(anthropic.NotFoundError, match="does not exist") as unknown:
        client.messages.create(model="none", max_tokens=9, messages=[say("x")])
    assert unknown.value.request_id
    assert unknown.value.type == "not_found_error"
    boss: Any = {"role": "boss", "content": "x"}
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\].role") as refused:
        client.messages.create(model="small", max_tokens=9, messages=[boss])
    assert refused.value.type == "invalid_request_error"
    with Anthropic(base_url=url, api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(anthropic.AuthenticationError):
            stranger.messages.create(model="small", max_tokens=9, messages=[say("x")])
        with pytest.raises(anthropic.AuthenticationError):
            stranger.models.list()


def test_an_engine_that_is_lost_in_a_stream_is_an_error(client: Anthropic) -> None:
    lose: Any = {"role": "user", "content": "lose: A long story."}
    with (
        pytest.raises(anthropic.APIStatusError) as lost,
        client.messages.stream(model="small", max_tokens=99, messages=[lose]) as stream,
    ):
        stream.get_final_message()
    assert lost.value.type == "overloaded_error"


def test_both_headers_of_a_key_may_be_there(url: str) -> None:
    headers = {"x-api-key": "another-service-s", "authorization": f"Bearer {SECRET}"}
    with Anthropic(base_url=url, api_key="x", default_headers=headers, max_retries=0) as client:
        assert client.messages.create(model="small", max_tokens=9, messages=[say("Hi")]).content
