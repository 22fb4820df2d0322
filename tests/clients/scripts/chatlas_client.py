# /// script
# dependencies = ["anthropic", "chatlas>=0.23", "openai"]
# ///
"""Posit's chatlas over completions of chats, Responses, Messages and Ollama: text, streams, a tool, typed, a loop."""

from typing import Literal

from chatlas import ChatAnthropic, ChatGroq, ChatMistral, ChatOllama, ChatOpenAI, ChatOpenAICompletions
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
    step,
    weather,
)

V1 = {"base_url": URL, "api_key": "any"}
MODELS = {
    "chat": lambda: ChatOpenAICompletions(model=CHAT, **V1),
    "chat_groq": lambda: ChatGroq(model=CHAT, base_url=f"{BASE}/openai/v1", api_key="any"),
    "chat_mistral": lambda: ChatMistral(model=CHAT, **V1),
    "chat_ollama": lambda: ChatOllama(CHAT, base_url=BASE),
    "responses": lambda: ChatOpenAI(model=CHAT, **V1),
    "responses_thinker": lambda: ChatOpenAI(model=THINKER, **V1),
    "messages": lambda: ChatAnthropic(model=CHAT, api_key="any", max_tokens=TOKENS, kwargs={"base_url": BASE}),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def said(chat, order):
    return str(chat.chat(order, echo="none"))


def plain(model):
    expect_text(said(model(), MORNING), "Good morning.")


def stream(model):
    expect_text("".join(model().stream(MORNING)), "Good morning.")


def tool(model):
    chat = model()
    chat.register_tool(weather)
    expect_weather(said(chat, WEATHER))


def typed(model):
    """Over Messages by a tool, whose arguments may lack all."""
    by_tool = model is MODELS["messages"]
    order = 'call: _structured_tool_call {"data": {"city": "Bern"}}' if by_tool else 'say: {"city": "Bern"}'
    assert model().chat_structured(order, data_model=Place).city in CITIES


def loop(model):
    chat = model()
    chat.register_tool(read_note)
    chat.register_tool(edit_note)
    expect_edited(said(chat, PLAN))


each(MODELS, plain, stream, *[tool, loop] * OBEDIENT)
each({name: model for name, model in MODELS.items() if OBEDIENT or name != "messages"}, typed)


@step
def messages_typed_by_schema():
    chat = ChatAnthropic(
        model=CHAT, api_key="any", max_tokens=TOKENS, structured_output_mode="native", kwargs={"base_url": BASE}
    )
    assert chat.chat_structured('say: {"city": "Bern"}', data_model=Place).city in CITIES


finish("chatlas")
