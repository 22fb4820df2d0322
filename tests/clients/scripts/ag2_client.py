# /// script
# dependencies = ["ag2[anthropic,ollama,openai]>=1.2"]
# ///
"""AG2 over chat, Responses, Messages and Ollama: text, streams, a tool, typed output, an agent in several turns."""

from typing import Literal

from ag2 import Agent
from ag2 import tool as as_tool
from ag2.config import AnthropicConfig, OpenAIConfig, OpenAIResponsesConfig
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
    weather,
)

V1 = {"base_url": URL, "api_key": "any", "max_retries": 0}
MODELS = {
    "chat": OpenAIConfig(CHAT, max_tokens=TOKENS, **V1),
    "chat_stream": OpenAIConfig(CHAT, max_tokens=TOKENS, streaming=True, **V1),
    "chat_thinker": OpenAIConfig(THINKER, max_tokens=TOKENS, **V1),
    "responses": OpenAIResponsesConfig(CHAT, max_output_tokens=TOKENS, **V1),
    "responses_stream": OpenAIResponsesConfig(THINKER, max_output_tokens=TOKENS, streaming=True, **V1),
    "messages": AnthropicConfig(CHAT, max_tokens=TOKENS, base_url=BASE, api_key="any", max_retries=0),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def asked(model, order, *tools, **options):
    return awaited(Agent("one", config=model, tools=[as_tool(tool) for tool in tools], **options).ask(order))


def plain(model):
    expect_text(asked(model, MORNING).body, "Good morning.")


def tool(model):
    expect_weather(asked(model, WEATHER, weather).body)


def typed(model):
    reply = asked(model, 'say: {"city": "Bern"}', response_schema=Place)
    assert awaited(reply.content()).city in CITIES


def loop(model):
    expect_edited(asked(model, PLAN, read_note, edit_note).body)


each(MODELS, plain, typed, *[tool, loop] * OBEDIENT)
finish("ag2")
