# /// script
# dependencies = ["langchain>=1.2", "langchain-openai>=1.7", "langgraph>=1.2"]
# ///
"""LangGraph: a graph of its own, and LangChain's agent on it, with a checkpoint, over chat and over Responses."""

from typing import Literal

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel
from steps import (
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

HERE = {"base_url": URL, "api_key": "any", "max_tokens": TOKENS, "max_retries": 0}
MODELS = {
    "chat": ChatOpenAI(model=CHAT, **HERE),
    "chat_thinker": ChatOpenAI(model=THINKER, **HERE),
    "responses": ChatOpenAI(model=CHAT, use_responses_api=True, **HERE),
    "responses_thinker": ChatOpenAI(model=THINKER, use_responses_api=True, **HERE),
    "responses_chained": ChatOpenAI(model=CHAT, use_responses_api=True, use_previous_response_id=True, **HERE),
}


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


def asking(order):
    return {"messages": [{"role": "user", "content": order}]}


def plain(model):
    expect_text(create_agent(model).invoke(asking(MORNING))["messages"][-1].text, "Good morning.")


def stream(model):
    parts = create_agent(model).stream(asking(MORNING), stream_mode="messages")
    expect_text("".join(part.text for part, _ in parts), "Good morning.")


def typed(model):
    bound = model.with_structured_output(Place, method="json_schema")
    assert bound.invoke('say: {"city": "Bern"}').city in CITIES


def tool(model):
    """A graph of two nodes: the model, and its tools."""
    bound = model.bind_tools([weather])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    expect_weather(graph.compile().invoke(asking(WEATHER))["messages"][-1].text)


def loop(model):
    """The agent goes on where its checkpoint was."""
    agent = create_agent(model, [read_note, edit_note], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}
    expect_text(agent.invoke(asking(MORNING), thread)["messages"][-1].text, "Good morning.")
    expect_edited(agent.invoke(asking(PLAN), thread)["messages"][-1].text)


each(MODELS, plain, stream, typed, *[tool, loop] * OBEDIENT)
finish("langgraph")
