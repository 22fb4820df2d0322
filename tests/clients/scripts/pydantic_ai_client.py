# /// script
# dependencies = ["pydantic-ai-slim[openai]>=2.0"]
# ///
"""Pydantic AI: text, a tool, typed output, streams, over chat completions and over responses."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from steps import URL, finish, step

provider = OpenAIProvider(base_url=URL, api_key="any")
chat_model = OpenAIChatModel("small", provider=provider)


class Place(BaseModel):
    city: str


@step
def chat():
    assert Agent(chat_model).run_sync("say: Good morning.").output == "Good morning."


@step
def chat_stream():
    async def run():
        async with Agent(chat_model).run_stream("say: Good morning.") as streamed:
            return await streamed.get_output()

    assert asyncio.run(run()) == "Good morning."


@step
def tools():
    agent = Agent(chat_model)

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"18 degrees in {city}"

    assert agent.run_sync('call: weather {"city": "Bern"}').output == "it said: 18 degrees in Bern"


@step
def typed_by_tool():
    done = Agent(chat_model, output_type=Place).run_sync('call: final_result {"city": "Bern"}')
    assert done.output == Place(city="Bern")


@step
def responses():
    model = OpenAIResponsesModel("oss", provider=provider)
    assert Agent(model).run_sync("say: Good morning.").output == "Good morning."


@step
def responses_tools():
    agent = Agent(OpenAIResponsesModel("oss", provider=provider))

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"18 degrees in {city}"

    assert agent.run_sync('call: weather {"city": "Bern"}').output == "it said: 18 degrees in Bern"


finish("pydantic-ai-slim")
