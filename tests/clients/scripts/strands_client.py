# /// script
# dependencies = ["strands-agents[anthropic,ollama,openai]>=1.62"]
# ///
"""Strands' agents, by five of its kinds of models: text, streams, a tool, typed output, a loop of several turns."""

import asyncio
from typing import Literal

from pydantic import BaseModel
from steps import (
    BASE,
    CHAT,
    CITIES,
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
    weather,
)
from strands import Agent
from strands import tool as as_tool
from strands.models.anthropic import AnthropicModel
from strands.models.llamacpp import LlamaCppModel
from strands.models.ollama import OllamaModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel

CLIENT = {"base_url": URL, "api_key": "any"}
BARE = {"base_url": BASE, "api_key": "any"}
BRIEF = {"max_output_tokens": TOKENS}
MODELS = {
    "chat": lambda: OpenAIModel(client_args=CLIENT, model_id=CHAT, params={"max_tokens": TOKENS}),
    "chat_llama_cpp": lambda: LlamaCppModel(base_url=BASE, model_id=CHAT, params={"max_tokens": TOKENS}),
    "chat_ollama": lambda: OllamaModel(BASE, model_id=CHAT, max_tokens=TOKENS),
    "responses": lambda: OpenAIResponsesModel(client_args=CLIENT, model_id=THINKER, params=BRIEF),
    "messages": lambda: AnthropicModel(
        client_args={"base_url": BASE, "api_key": "any"}, model_id=CHAT, max_tokens=TOKENS
    ),
}


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


def agent(model, *tools):
    return Agent(model=model(), tools=[as_tool(tool) for tool in tools], callback_handler=None)


def said(result):
    return "".join(block.get("text", "") for block in result.message["content"])


def plain(model):
    expect_text(said(agent(model)(MORNING)), "Good morning.")


def stream(model):
    async def run():
        return [event["data"] async for event in agent(model).stream_async(MORNING) if "data" in event]

    expect_text("".join(asyncio.run(run())), "Good morning.")


def tool(model):
    expect_weather(said(agent(model, weather)(WEATHER)))


def typed(model):
    """The model may talk first; a small one does so until it is cut, which is an error to Strands."""
    place = agent(model)('call: Place {"city": "Bern"}', structured_output_model=Place).structured_output
    assert place.city in CITIES


def loop(model):
    expect_edited(said(agent(model, read_note, edit_note)(PLAN)))


each(MODELS, plain, stream, tool, *[typed, loop] * OBEDIENT)
finish("strands-agents")
