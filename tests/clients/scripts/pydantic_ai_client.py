# /// script
# dependencies = ["pydantic-ai-slim[openai]>=2.0"]
# ///
"""Pydantic AI: text, a tool, typed output of two kinds, streams, over chat completions and over responses."""

import asyncio
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from steps import CHAT, CITIES, MORNING, THINKER, URL, WEATHER, expect_text, finish, step

provider = OpenAIProvider(base_url=URL, api_key="any")
chat_model = OpenAIChatModel(CHAT, provider=provider, settings={"max_tokens": 200})
responses_model = OpenAIResponsesModel(THINKER, provider=provider, settings={"max_tokens": 200})


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def with_tool(model):
    agent = Agent(model)

    @agent.tool_plain
    def weather(city: Literal["Bern", "Basel"]) -> str:
        return f"18 degrees in {city}"

    return agent


async def streamed(model):
    async with Agent(model).run_stream(MORNING) as stream:
        return await stream.get_output()


@step
def chat():
    expect_text(Agent(chat_model).run_sync(MORNING).output, "Good morning.")


@step
def chat_stream():
    expect_text(asyncio.run(streamed(chat_model)), "Good morning.")


@step
def chat_tools():
    expect_text(with_tool(chat_model).run_sync(WEATHER).output, "it said: 18 degrees in Bern")


@step
def chat_typed_by_tool():
    agent = Agent(chat_model, output_type=Place)
    assert agent.run_sync('call: final_result {"city": "Bern"}').output.city in CITIES


@step
def chat_typed_by_schema():
    agent = Agent(chat_model, output_type=NativeOutput(Place))
    assert agent.run_sync('say: {"city": "Bern"}').output.city in CITIES


@step
def responses():
    expect_text(Agent(responses_model).run_sync(MORNING).output, "Good morning.")


@step
def responses_stream():
    expect_text(asyncio.run(streamed(responses_model)), "Good morning.")


@step
def responses_tools():
    expect_text(with_tool(responses_model).run_sync(WEATHER).output, "it said: 18 degrees in Bern")


finish("pydantic-ai-slim")
