# /// script
# dependencies = ["langchain>=1.2", "langchain-anthropic>=1.7", "langchain-mistralai>=1.1"]
# ///
"""LangChain's clients of Anthropic and of Mistral: text, streams, tools, typed output, agents in several turns."""

from typing import Literal

from langchain.agents import create_agent
from langchain.messages import HumanMessage
from langchain_anthropic import ChatAnthropic
from langchain_mistralai import ChatMistralAI, MistralAIEmbeddings
from pydantic import BaseModel
from steps import (
    BASE,
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

claude = ChatAnthropic(model=CHAT, base_url=BASE, api_key="any", max_tokens=TOKENS, max_retries=0)
MODELS = {
    "chat_mistral": ChatMistralAI(model=CHAT, base_url=URL, api_key="any", max_tokens=TOKENS),
    "messages": claude,
}


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


def said(model, tools, order):
    ran = create_agent(model, tools).invoke({"messages": [{"role": "user", "content": order}]})
    return ran["messages"][-1].text


def plain(model):
    expect_text(model.invoke(MORNING).text, "Good morning.")


def stream(model):
    expect_text("".join(part.text for part in model.stream(MORNING)), "Good morning.")


def tool(model):
    expect_weather(said(model, [weather], WEATHER))


def typed(model):
    assert model.with_structured_output(Place).invoke('call: Place {"city": "Bern"}').city in CITIES


def typed_by_schema(model):
    placed = model.with_structured_output(Place, method="json_schema")
    assert placed.invoke('say: {"city": "Bern"}').city in CITIES


def loop(model):
    expect_edited(said(model, [read_note, edit_note], PLAN))


each(MODELS, plain, stream, typed, typed_by_schema, *[tool, loop] * OBEDIENT)


@step
def messages_thinking():
    thinker = claude.model_copy(update={"model": THINKER, "max_tokens": 2000})
    answer = thinker.invoke(MORNING, thinking={"type": "enabled", "budget_tokens": 1024})
    expect_text(answer.text, "Good morning.")
    if OBEDIENT:
        assert [block["type"] for block in answer.content] == ["thinking", "text"]
        thinker.invoke([("user", MORNING), answer, ("user", MORNING)])


@step
def messages_tokens():
    assert claude.get_num_tokens_from_messages([HumanMessage(MORNING)]) > 0


@step
def embeddings():
    embedder = MistralAIEmbeddings(model=EMBEDDER, endpoint=f"{URL}/", api_key="any")
    assert len(embedder.embed_documents(["a cat", "a dog"])) == 2


finish("langchain-anthropic")
