# /// script
# dependencies = ["ollama>=0.6"]
# ///
"""Ollama's own client: every route that it has here, streamed and whole."""

import asyncio
import json
from typing import Literal

import ollama
from pydantic import BaseModel
from steps import CHAT, CITIES, EMBEDDER, MORNING, OBEDIENT, THINKER, WEATHER, expect_text, expects, finish, step

client = ollama.Client()
SHORT = {"num_predict": 200}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather of a city.

    Args:
      city: which
    """
    return "18 degrees"


def ask(text):
    return [{"role": "user", "content": text}]


@step
def models():
    names = {model.model for model in client.list().models}
    assert {CHAT, EMBEDDER} <= names or not OBEDIENT, names
    assert "completion" in client.show(f"{CHAT}:latest").capabilities
    assert client.pull(CHAT).status == "success"
    assert [part.status for part in client.pull(CHAT, stream=True)][-1] == "success"
    assert isinstance(client.ps().models, list)


@step
def chat():
    answer = client.chat(CHAT, ask(MORNING), options=SHORT)
    expect_text(answer.message.content, "Good morning.")
    assert answer.done
    assert answer.total_duration >= answer.eval_duration > 0


@step
def chat_stream():
    parts = list(client.chat(CHAT, ask(MORNING), options=SHORT, stream=True))
    expect_text("".join(part.message.content for part in parts), "Good morning.")
    assert [part.done for part in parts].index(True) == len(parts) - 1


@step
def chat_thinker():
    answer = client.chat(THINKER, ask(MORNING), options=SHORT)
    expect_text(answer.message.content, "Good morning.")


@step
def chat_tools():
    for stream in (False, True):
        got = client.chat(CHAT, ask(WEATHER), tools=[weather], options=SHORT, stream=stream)
        messages = [part.message for part in got] if stream else [got.message]
        calls = [call for message in messages for call in message.tool_calls or []]
        if OBEDIENT:
            assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "Bern"})]
        called = {"role": "assistant", "content": "", "tool_calls": calls}
        results = [{"role": "tool", "tool_name": call.function.name, "content": "18 degrees"} for call in calls]
        answer = client.chat(CHAT, [*ask(WEATHER), called, *results], options=SHORT)
        expect_text(answer.message.content, "it said: 18 degrees")


@step
def chat_format():
    answer = client.chat(CHAT, ask('say: {"city": "Bern"}'), format=Place.model_json_schema(), options=SHORT)
    assert Place.model_validate_json(answer.message.content).city in CITIES
    answer = client.chat(CHAT, ask('say: {"city": "Bern"}'), format="json", options=SHORT)
    assert answer.done_reason == "length" or isinstance(json.loads(answer.message.content), dict)


@step
def completions():
    expect_text(client.generate(CHAT, MORNING, options=SHORT).response, "Good morning.")
    parts = list(client.generate(CHAT, MORNING, options=SHORT, stream=True))
    expect_text("".join(part.response for part in parts), "Good morning.")
    assert client.generate(CHAT).done_reason == "load"


@step
def completions_asynchronous():
    async def generated():
        async with ollama.AsyncClient() as other:
            return await other.generate(CHAT, MORNING, options=SHORT)

    expect_text(asyncio.run(generated()).response, "Good morning.")


@step
def embeddings():
    assert len(client.embed(EMBEDDER, ["a cat", "a dog"]).embeddings) == 2
    assert len(client.embeddings(EMBEDDER, "a cat").embedding) > 1


@step
def errors():
    expects(404, "/api/chat")
    expects(400, "/api/embed")
    for wrong, status in ((lambda: client.chat("nobody", ask("x")), 404), (lambda: client.embed(CHAT, "x"), 400)):
        try:
            wrong()
        except ollama.ResponseError as error:
            assert error.status_code == status, error
            assert error.error
        else:
            raise AssertionError("nothing was raised")


finish("ollama")
