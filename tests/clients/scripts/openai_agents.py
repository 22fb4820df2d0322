# /// script
# dependencies = ["openai-agents>=0.24"]
# ///
"""OpenAI's agents: a run with a tool, over responses and over chat completions, streamed too."""

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from steps import URL, finish, step

set_tracing_disabled(True)
ORDER = 'call: weather {"city": "Bern"}'


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"18 degrees in {city}"


def agent(kind, model):
    client = AsyncOpenAI(base_url=URL, api_key="any", max_retries=0)
    return Agent(name="one", instructions="Obey.", tools=[weather], model=kind(model, client))


async def output(kind, model, order):
    return (await Runner.run(agent(kind, model), order)).final_output


@step
def responses():
    assert asyncio.run(output(OpenAIResponsesModel, "oss", ORDER)) == "it said: 18 degrees in Bern"


@step
def chat():
    assert asyncio.run(output(OpenAIChatCompletionsModel, "small", ORDER)) == "it said: 18 degrees in Bern"


@step
def responses_stream():
    async def run():
        streamed = Runner.run_streamed(agent(OpenAIResponsesModel, "oss"), ORDER)
        async for _ in streamed.stream_events():
            pass
        return streamed.final_output

    assert asyncio.run(run()) == "it said: 18 degrees in Bern"


finish("openai-agents")
