# /// script
# dependencies = ["agent-framework-core>=1.23", "agent-framework-openai>=1.17"]
# ///
"""Microsoft's Agent Framework over chat completions and over responses; its embeddings."""

from typing import Literal

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient, OpenAIEmbeddingClient
from pydantic import BaseModel
from steps import (
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

HERE = {"base_url": URL, "api_key": "any"}
MODELS = {
    "chat": OpenAIChatCompletionClient(model=CHAT, **HERE),
    "chat_thinker": OpenAIChatCompletionClient(model=THINKER, **HERE),
    "responses": OpenAIChatClient(model=CHAT, **HERE),
    "responses_thinker": OpenAIChatClient(model=THINKER, **HERE),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def answered(model, order, *tools, **options):
    agent = Agent(client=model, tools=[*tools], default_options={"max_tokens": TOKENS, **options})
    return awaited(agent.run(order))


def plain(model):
    expect_text(answered(model, MORNING).text, "Good morning.")


def stream(model):
    async def run():
        parts = Agent(client=model).run(MORNING, stream=True)
        assert len([part async for part in parts]) > 1
        return await parts.get_final_response()

    expect_text(awaited(run()).text, "Good morning.")


def tool(model):
    expect_weather(answered(model, WEATHER, weather).text)


def typed(model):
    assert answered(model, 'say: {"city": "Bern"}', response_format=Place).value.city in CITIES


def loop(model):
    expect_edited(answered(model, PLAN, read_note, edit_note).text)


each(MODELS, plain, stream, tool, typed, *[loop] * OBEDIENT)


@step
def embeddings():
    client = OpenAIEmbeddingClient(model=EMBEDDER, **HERE)
    assert len(awaited(client.get_embeddings(["a cat", "a dog"]))) == 2


finish("agent-framework-core")
