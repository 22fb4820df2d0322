# /// script
# dependencies = ["smolagents[openai]>=1.26"]
# ///
"""Hugging Face's smolagents: its model of OpenAI's kind, and agents that call, in several turns."""

from smolagents import OpenAIModel, ToolCallingAgent
from smolagents import tool as as_tool
from smolagents.models import ChatMessage
from steps import (
    CHAT,
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

MODELS = {
    "chat": OpenAIModel(CHAT, api_base=URL, api_key="any", max_tokens=TOKENS),
    "chat_thinker": OpenAIModel(THINKER, api_base=URL, api_key="any", max_tokens=TOKENS),
}
SAY = [ChatMessage(role="user", content=[{"type": "text", "text": MORNING}])]


def agent(model, *tools):
    """An agent; it ends by a call."""
    return ToolCallingAgent(tools=[as_tool(tool) for tool in tools], model=model, max_steps=6, verbosity_level=0)


def plain(model):
    expect_text(model.generate(SAY).content, "Good morning.")


def stream(model):
    expect_text("".join(delta.content or "" for delta in model.generate_stream(SAY)), "Good morning.")


def tool(model):
    order = WEATHER.replace("call: ", "plan: call ") + ' ;; call final_answer {"answer": "it said: 18 degrees in Bern"}'
    expect_weather(agent(model, weather).run(order))


def loop(model):
    order = PLAN.replace("say It is done.", 'call final_answer {"answer": "It is done."}')
    expect_edited(agent(model, read_note, edit_note).run(order))


each(MODELS, plain, stream, *[tool, loop] * OBEDIENT)
finish("smolagents")
