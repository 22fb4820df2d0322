# /// script
# dependencies = ["langchain-openai>=1.7"]
# ///
"""LangChain's client for OpenAI: chat, tools, structured output of both kinds, completions, embeddings, responses."""

from typing import Literal

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from steps import CHAT, CITIES, EMBEDDER, MORNING, THINKER, WEATHER, expect_text, finish, step

HERE = {"max_retries": 0}
model = ChatOpenAI(model=CHAT, max_tokens=200, **HERE)
thinker = ChatOpenAI(model=THINKER, max_tokens=200, use_responses_api=True, **HERE)


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


@tool
def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather of a city."""
    return "18 degrees"


def called(model):
    """A forced call, and the answer to its result."""
    call = model.bind_tools([weather], tool_choice="any", parallel_tool_calls=False).invoke(WEATHER)
    assert call.tool_calls[0]["args"]["city"] in CITIES
    results = [weather.invoke(one) for one in call.tool_calls]
    answer = model.bind_tools([weather], tool_choice="none").invoke(
        [{"role": "user", "content": WEATHER}, call, *results]
    )
    expect_text(answer.text, "it said: 18 degrees")


@step
def chat():
    expect_text(model.invoke(MORNING).content, "Good morning.")


@step
def chat_stream():
    expect_text("".join(chunk.content for chunk in model.stream(MORNING)), "Good morning.")


@step
def chat_tools():
    called(model)


@step
def chat_structured():
    assert model.with_structured_output(Place).invoke('say: {"city": "Bern"}').city in CITIES


@step
def chat_structured_by_tool():
    calling = model.with_structured_output(Place, method="function_calling")
    assert calling.invoke('call: Place {"city": "Bern"}').city in CITIES


@step
def completions():
    expect_text(OpenAI(model=CHAT, max_tokens=200, **HERE).invoke("say: Good"), "Good")


@step
def responses():
    expect_text(thinker.invoke(MORNING).text, "Good morning.")


@step
def responses_stream():
    expect_text("".join(chunk.text for chunk in thinker.stream(MORNING)), "Good morning.")


@step
def responses_tools():
    called(thinker)


@step
def embeddings():
    embed = OpenAIEmbeddings(model=EMBEDDER, check_embedding_ctx_length=False, **HERE)
    assert len(embed.embed_documents(["abc", "abcdef"])) == 2


finish("langchain-openai")
