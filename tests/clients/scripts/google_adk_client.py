# /// script
# dependencies = ["google-adk>=2.13", "litellm", "mcp"]
# ///
"""Google's Agent Development Kit by LiteLLM: four of its prefixes by text, stream, tool, typed output and a loop."""

import json
import os
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
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

V1 = {"api_base": URL, "api_key": "any", "max_tokens": TOKENS, "num_retries": 0}
BARE = {**V1, "api_base": BASE}
MODELS = {
    "chat": LiteLlm(f"openai/{CHAT}", **V1),
    "chat_vllm": LiteLlm(f"hosted_vllm/{THINKER}", **V1),
    "chat_ollama": LiteLlm(f"ollama_chat/{CHAT}", **BARE),
    "messages": LiteLlm(f"anthropic/{CHAT}", **BARE),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def said(model, order, *, mode=StreamingMode.NONE, **options):
    """The texts of the events: those that are parts, and those that are whole."""

    async def run():
        runner = InMemoryRunner(Agent(name="one", model=model, **options), app_name="here")
        session = await runner.session_service.create_session(app_name="here", user_id="me")
        message = types.Content(role="user", parts=[types.Part(text=order)])
        parts, whole = [], []
        async for event in runner.run_async(
            user_id="me", session_id=session.id, new_message=message, run_config=RunConfig(streaming_mode=mode)
        ):
            texts = [part.text for part in (event.content.parts or []) if part.text and not part.thought]
            (parts if event.partial else whole).extend(texts)
        return parts, whole

    return awaited(run())


def plain(model):
    expect_text(said(model, MORNING)[1][-1], "Good morning.")


def stream(model):
    parts, whole = said(model, MORNING, mode=StreamingMode.SSE)
    expect_text("".join(parts), "Good morning.")
    assert whole


def tool(model):
    expect_weather(said(model, WEATHER, tools=[weather])[1][-1], '{"result": "18 degrees in Bern"}')


def typed(model):
    """By a schema; LiteLLM gives it to Anthropic as a tool."""
    order = 'call: json_tool_call {"city": "Bern"}' if model is MODELS["messages"] else 'say: {"city": "Bern"}'
    assert json.loads(said(model, order, output_schema=Place)[1][-1])["city"] in CITIES


def loop(model):
    expect_edited(said(model, PLAN, tools=[read_note, edit_note])[1][-1])


each(MODELS, plain, stream, *[tool, typed, loop] * OBEDIENT)
finish("google-adk")
