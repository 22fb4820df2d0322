# /// script
# dependencies = ["haystack-ai>=3.4", "ollama-haystack>=7.0"]
# ///
"""Haystack over chat, Responses and Ollama: text, streams, typed output, agents in several turns; its embeddings."""

import json
import os
from typing import Literal

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
from haystack.components.agents import Agent
from haystack.components.embedders import OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from haystack_integrations.components.embedders.ollama import OllamaTextEmbedder
from haystack_integrations.components.generators.ollama import OllamaChatGenerator
from pydantic import BaseModel
from steps import (
    BASE,
    CHAT,
    CITIES,
    EMBEDDER,
    MORNING,
    OBEDIENT,
    PLAN,
    THINKER,
    TOKENS,
    URL,
    WEATHER,
    each,
    edit_note,
    expect_edited,
    expect_text,
    expect_weather,
    finish,
    read_note,
    step,
    weather,
)

HERE = {"api_base_url": URL, "api_key": Secret.from_token("any")}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


SCHEMA = {**Place.model_json_schema(), "additionalProperties": False}
MODELS = {
    "chat": lambda **options: OpenAIChatGenerator(
        model=CHAT, max_retries=0, generation_kwargs={"max_tokens": TOKENS}, **HERE, **options
    ),
    "chat_ollama": lambda **options: OllamaChatGenerator(
        model=CHAT, url=BASE, generation_kwargs={"num_predict": TOKENS}, **options
    ),
    "responses": lambda **options: OpenAIResponsesChatGenerator(
        model=THINKER, max_retries=0, generation_kwargs={"max_output_tokens": TOKENS}, **HERE, **options
    ),
}


def said(model, order, **options):
    return model(**options).run([ChatMessage.from_user(order)])["replies"][0].text


def ran(model, order, *functions):
    tools = [create_tool_from_function(function) for function in functions]
    return Agent(chat_generator=model(), tools=tools).run(messages=[ChatMessage.from_user(order)])["last_message"].text


def plain(model):
    expect_text(said(model, MORNING), "Good morning.")


def stream(model):
    parts = []
    text = said(model, MORNING, streaming_callback=lambda part: parts.append(part.content))
    expect_text(text, "Good morning.")
    assert "".join(parts) == text


def tool(model):
    expect_weather(ran(model, WEATHER, weather))


def loop(model):
    expect_edited(ran(model, PLAN, read_note, edit_note))


each(MODELS, plain, stream, *[tool, loop] * OBEDIENT)


@step
def chat_typed():
    kwargs = {"max_tokens": TOKENS, "response_format": Place}
    model = OpenAIChatGenerator(model=CHAT, generation_kwargs=kwargs, **HERE)
    reply = model.run([ChatMessage.from_user('say: {"city": "Bern"}')])["replies"][0]
    assert json.loads(reply.text)["city"] in CITIES


@step
def chat_ollama_typed():
    place = said(MODELS["chat_ollama"], 'say: {"city": "Bern"}', response_format=SCHEMA)
    assert json.loads(place)["city"] in CITIES


@step
def responses_typed():
    kwargs = {"max_output_tokens": TOKENS, "text_format": Place}
    model = OpenAIResponsesChatGenerator(model=CHAT, generation_kwargs=kwargs, **HERE)
    reply = model.run([ChatMessage.from_user('say: {"city": "Bern"}')])["replies"][0]
    assert json.loads(reply.text)["city"] in CITIES


@step
def embeddings():
    assert OpenAITextEmbedder(model=EMBEDDER, **HERE).run("a cat")["embedding"]
    assert OllamaTextEmbedder(model=EMBEDDER, url=BASE).run("a cat")["embedding"]


finish("haystack-ai")
