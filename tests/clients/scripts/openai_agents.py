# /// script
# dependencies = ["openai-agents>=0.24"]
# ///
"""OpenAI's agents: a run with a tool, over responses and over chat completions, streamed too."""

import asyncio
from typing import Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from steps import CHAT, CITIES, OBEDIENT, THINKER, URL, WEATHER, finish, step

set_tracing_disabled(True)
calls = []


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


@function_tool
def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"18 degrees in {city}"


def agent(kind, model, **options):
    client = AsyncOpenAI(base_url=URL, api_key="any", max_retries=0)
    return Agent(name="one", instructions="Obey.", model=kind(model, client), **options)


def weatherman(kind, model):
    """Calls once because it must; then it may answer."""
    must = ModelSettings(tool_choice="required", max_tokens=200, parallel_tool_calls=False)
    return agent(kind, model, tools=[weather], model_settings=must)


def expected(output):
    assert calls
    calls.clear()
    assert output == "it said: 18 degrees in Bern" if OBEDIENT else output, output


@step
def responses():
    expected(asyncio.run(Runner.run(weatherman(OpenAIResponsesModel, THINKER), WEATHER, max_turns=20)).final_output)


@step
def responses_stream():
    async def run():
        streamed = Runner.run_streamed(weatherman(OpenAIResponsesModel, THINKER), WEATHER, max_turns=20)
        async for _ in streamed.stream_events():
            pass
        return streamed.final_output

    expected(asyncio.run(run()))


@step
def responses_typed():
    one = agent(OpenAIResponsesModel, CHAT, output_type=Place)
    assert asyncio.run(Runner.run(one, 'say: {"city": "Bern"}')).final_output.city in CITIES


@step
def chat():
    expected(asyncio.run(Runner.run(weatherman(OpenAIChatCompletionsModel, CHAT), WEATHER, max_turns=20)).final_output)


@step
def chat_stream():
    async def run():
        streamed = Runner.run_streamed(weatherman(OpenAIChatCompletionsModel, CHAT), WEATHER, max_turns=20)
        async for _ in streamed.stream_events():
            pass
        return streamed.final_output

    expected(asyncio.run(run()))


finish("openai-agents")
