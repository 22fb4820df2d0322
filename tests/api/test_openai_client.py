"""The official client finds everything where it looks for it."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from antiphon.engines import Sampling
from kit.api import END, app, ids, scripted, served

HELLO = ids("Hello there, friend.", END)
ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
TOOLS: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
]


def script(prompt: tuple[int, ...], sampling: Sampling, choice: int) -> list[int]:
    """Another answer for each seed and each choice."""
    return ids(f"Seed {sampling.seed}, choice {choice}.", END)


base = served(lambda: app(scripted(script)))  # type: ignore[arg-type]  # a prompt is any sequence; ours is a tuple


@pytest.fixture
def client(base: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_it_lists_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").object == "model"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("large")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_it_chats_streamed_and_not(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="small", messages=ASK, seed=3, n=2)
    assert [choice.message.content for choice in whole.choices] == ["Seed 3, choice 0.", "Seed 3, choice 1."]
    assert whole._request_id
    with client.chat.completions.stream(
        model="small", messages=ASK, seed=3, n=2, stream_options={"include_usage": True}
    ) as stream:
        streamed = stream.get_final_completion()
    assert [c.message.content for c in streamed.choices] == [c.message.content for c in whole.choices]
    assert [c.finish_reason for c in streamed.choices] == [c.finish_reason for c in whole.choices] == ["stop", "stop"]
    assert streamed.usage == whole.usage


def test_it_reads_logprobs_streamed_and_not(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="small", messages=ASK, seed=1, logprobs=True, top_logprobs=3)
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(entry.token for entry in logprobs.content) == whole.choices[0].message.content
    assert {len(entry.top_logprobs) for entry in logprobs.content} == {3}
    with client.chat.completions.stream(model="small", messages=ASK, seed=1, logprobs=True, top_logprobs=3) as stream:
        streamed = stream.get_final_completion().choices[0].logprobs
    assert streamed is not None
    assert streamed.content == logprobs.content


def test_its_errors_are_the_client_s_own_classes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="small", messages=ASK, temperature=9)
    assert (caught.value.param, caught.value.type) == ("temperature", "invalid_request_error")
    assert caught.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="large", messages=ASK)
