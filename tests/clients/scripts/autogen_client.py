# /// script
# dependencies = ["autogen-agentchat>=0.7", "autogen-ext[ollama,openai]>=0.7"]
# ///
"""AutoGen over chat and over Ollama: text, streams, a tool, typed output, an agent in several turns, a team of two."""

from typing import Literal

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import ModelInfo, UserMessage
from autogen_ext.models.ollama import OllamaChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient
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
    awaited,
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

INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
V1 = {"base_url": URL, "api_key": "any", "model_info": INFO, "max_tokens": TOKENS, "max_retries": 0}
MODELS = {
    "chat": OpenAIChatCompletionClient(model=CHAT, **V1),
    "chat_thinker": OpenAIChatCompletionClient(model=THINKER, **V1),
    "chat_ollama": OllamaChatCompletionClient(model=CHAT, host=BASE, model_info=INFO, options={"num_predict": TOKENS}),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def ran(model, order, *tools):
    agent = AssistantAgent("one", model, tools=[*tools], max_tool_iterations=5, reflect_on_tool_use=bool(tools))
    return awaited(agent.run(task=order)).messages[-1].content


def plain(model):
    expect_text(ran(model, MORNING), "Good morning.")


def stream(model):
    async def run():
        return [part async for part in model.create_stream([UserMessage(content=MORNING, source="user")])]

    *parts, last = awaited(run())
    expect_text("".join(parts), "Good morning.")
    assert last.content == "".join(parts)


def tool(model):
    expect_weather(ran(model, WEATHER, weather))


def typed(model):
    asked = [UserMessage(content='say: {"city": "Bern"}', source="user")]
    assert Place.model_validate_json(awaited(model.create(asked, json_output=Place)).content).city in CITIES


def loop(model):
    expect_edited(ran(model, PLAN, read_note, edit_note))


each(MODELS, plain, stream, typed, *[tool, loop] * OBEDIENT)


@step
def chat_team():
    """Two agents, who speak in turn."""
    pair = [AssistantAgent(name, MODELS["chat"]) for name in ("one", "two")]
    team = RoundRobinGroupChat(pair, termination_condition=MaxMessageTermination(3))
    said = [message for message in awaited(team.run(task=MORNING)).messages if message.source != "user"]
    assert [message.source for message in said] == ["one", "two"]
    for message in said:
        expect_text(message.content, "Good morning.")


finish("autogen-agentchat")
