# /// script
# dependencies = ["langchain-ollama>=1.0"]
# ///
"""LangChain's client for Ollama: chat, streams, tools, structured output, texts, embeddings."""

from typing import Literal

from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from pydantic import BaseModel
from steps import BASE, CHAT, CITIES, EMBEDDER, MORNING, OBEDIENT, WEATHER, expect_text, finish, step

HERE = {"base_url": BASE, "num_predict": 200}
model = ChatOllama(model=CHAT, **HERE)


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


@tool
def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather of a city."""
    return "18 degrees"


@step
def chat():
    expect_text(model.invoke(MORNING).text, "Good morning.")


@step
def chat_stream():
    expect_text("".join(part.text for part in model.stream(MORNING)), "Good morning.")


@step
def chat_tools():
    called = model.bind_tools([weather]).invoke(WEATHER)
    if OBEDIENT:
        assert [(one["name"], one["args"]) for one in called.tool_calls] == [("weather", {"city": "Bern"})]
    results = [weather.invoke(one) for one in called.tool_calls]
    answer = model.bind_tools([weather]).invoke([{"role": "user", "content": WEATHER}, called, *results])
    assert isinstance(answer.text, str)
    if OBEDIENT:
        expect_text(answer.text, "it said: 18 degrees")


@step
def chat_structured():
    answer = model.with_structured_output(Place).invoke('say: {"city": "Bern"}')
    assert answer.city in CITIES


@step
def completions():
    expect_text(OllamaLLM(model=CHAT, **HERE).invoke(MORNING), "Good morning.")


@step
def embeddings():
    assert len(OllamaEmbeddings(model=EMBEDDER, base_url=BASE).embed_documents(["a cat", "a dog"])) == 2


finish("langchain-ollama")
