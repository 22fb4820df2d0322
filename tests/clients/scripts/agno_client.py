# /// script
# dependencies = ["agno>=3.1", "anthropic", "ollama", "openai"]
# ///
"""Agno's agents, by eight of its kinds of models: text, streams, a tool, typed output, a loop of several turns."""

from typing import Literal

from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.models.llama_cpp import LlamaCpp
from agno.models.lmstudio import LMStudio
from agno.models.ollama import Ollama
from agno.models.openai import OpenAIChat, OpenAILike, OpenAIResponses
from agno.models.vllm import VLLM
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

V1 = {"base_url": URL, "api_key": "any", "max_tokens": TOKENS}
MODELS = {
    "chat": OpenAIChat(id=CHAT, **V1),
    "chat_like": OpenAILike(id=THINKER, **V1),
    "chat_vllm": VLLM(id=CHAT, **V1),
    "chat_llama_cpp": LlamaCpp(id=CHAT, **V1),
    "chat_lm_studio": LMStudio(id=CHAT, **V1),
    "chat_ollama": Ollama(id=CHAT, host=BASE, options={"num_predict": TOKENS}),
    "responses": OpenAIResponses(id=THINKER, base_url=URL, api_key="any", max_output_tokens=TOKENS),
    "messages": Claude(id=CHAT, api_key="any", max_tokens=TOKENS, client_params={"base_url": BASE}),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def agent(model, **options):
    return Agent(model=model, telemetry=False, **options)


def plain(model):
    expect_text(agent(model).run(MORNING).content, "Good morning.")


def stream(model):
    events = agent(model).run(MORNING, stream=True)
    expect_text("".join(event.content or "" for event in events), "Good morning.")


def tool(model):
    expect_weather(agent(model, tools=[weather], tool_call_limit=2).run(WEATHER).content)


def typed(model):
    place = agent(model, output_schema=Place).run('say: {"city": "Bern"}').content
    assert place.city in CITIES


def loop(model):
    expect_edited(agent(model, tools=[read_note, edit_note]).run(PLAN).content)


each(MODELS, plain, stream, tool, typed, *[loop] * OBEDIENT)
finish("agno")
