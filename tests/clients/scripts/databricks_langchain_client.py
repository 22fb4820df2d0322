# /// script
# dependencies = ["databricks-langchain>=0.22", "mcp<2"]
# ///
"""Databricks' LangChain package: ChatDatabricks over chat and over responses, and DatabricksEmbeddings.

With the mcp that its adapters know: it does not say so itself, and imports none of the second version.
"""

import os
from typing import Literal

from steps import BASE, CHAT, CITIES, EMBEDDER, MORNING, THINKER, WEATHER, expect_text, expects, finish, step

os.environ |= {"DATABRICKS_HOST": BASE, "DATABRICKS_TOKEN": "any"}

from databricks_langchain import ChatDatabricks, DatabricksEmbeddings
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

chatting = ChatDatabricks(model=CHAT, max_tokens=200)


class Place(BaseModel):
    city: Literal["Bern", "Basel"]
    size: Literal["small", "large"]


@tool
def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather."""
    return "18 degrees"


@step
def chat():
    answer = chatting.invoke([("system", "Be brief."), ("user", MORNING)])
    expect_text(answer.content, "Good morning.")
    assert answer.usage_metadata["total_tokens"] > 0


@step
def chat_stream():
    once = ChatDatabricks(model=CHAT, max_tokens=200, extra_params={"stream_options": {"include_usage": True}})
    answer, *chunks = once.stream(MORNING)
    for chunk in chunks:
        answer += chunk
    expect_text(answer.content, "Good morning.")
    assert answer.usage_metadata["input_tokens"] == chatting.invoke(MORNING).usage_metadata["input_tokens"]


@step
def chat_tools():
    caller = chatting.bind_tools([weather], tool_choice="required")
    called = caller.invoke(WEATHER)
    (call,) = called.tool_calls[:1]
    assert (call["name"], call["args"]["city"] in CITIES) == ("weather", True)
    results = [ToolMessage("18 degrees", tool_call_id=one["id"]) for one in called.tool_calls]
    answer = chatting.bind_tools([weather], tool_choice="none").invoke([("user", WEATHER), called, *results])
    expect_text(answer.content, "it said: 18 degrees")


@step
def chat_structured():
    ask = 'say: {"city": "Bern", "size": "small"}'
    made = chatting.with_structured_output(Place, method="json_schema").invoke(ask)
    assert made.city in CITIES


@step
def chat_batch():
    for answer in chatting.batch([MORNING, MORNING]):
        expect_text(answer.content, "Good morning.")


@step
def responses():
    model = ChatDatabricks(model=THINKER, use_responses_api=True)
    answer = model.invoke(MORNING)
    expect_text("".join(part["text"] for part in answer.content if part["type"] == "text"), "Good morning.")


@step
def embeddings():
    made = DatabricksEmbeddings(endpoint=EMBEDDER)
    assert len(made.embed_documents(["abc", "abcdef"])) == 2
    assert made.embed_query("abc")


@step
def errors():
    expects(400, "/serving-endpoints/chat/completions")
    try:
        ChatDatabricks(model=CHAT, temperature=9.0).invoke(MORNING)
    except Exception as error:
        assert "temperature" in str(error)
        return
    raise AssertionError("a temperature of 9 was taken")


expects(404, "/.well-known/databricks-config", "*")  # the workspace's description, which it can do without
finish("databricks-langchain")
