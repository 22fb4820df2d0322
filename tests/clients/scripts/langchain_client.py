# /// script
# dependencies = ["langchain-openai>=1.7"]
# ///
"""LangChain's client for OpenAI: chat, tools, both kinds of structured output, embeddings, responses."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr
from steps import URL, finish, step

HERE = {"base_url": URL, "api_key": SecretStr("any"), "max_retries": 0}
model = ChatOpenAI(model="small", **HERE)


class Place(BaseModel):
    """A place."""

    city: str


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "18 degrees"


@step
def chat():
    assert model.invoke("say: Good morning.").content == "Good morning."


@step
def chat_stream():
    assert "".join(chunk.content for chunk in model.stream("say: Good morning.")) == "Good morning."


@step
def tools():
    said = model.bind_tools([weather]).invoke('call: weather {"city": "Bern"}')
    assert said.tool_calls[0]["args"] == {"city": "Bern"}
    result = weather.invoke(said.tool_calls[0])
    asked = {"role": "user", "content": 'call: weather {"city": "Bern"}'}
    assert model.bind_tools([weather]).invoke([asked, said, result]).content == "it said: 18 degrees"


@step
def structured_by_schema():
    assert model.with_structured_output(Place).invoke('say: {"city": "Bern"}') == Place(city="Bern")


@step
def structured_by_tool():
    calling = model.with_structured_output(Place, method="function_calling")
    assert calling.invoke('call: Place {"city": "Bern"}') == Place(city="Bern")


@step
def responses():
    said = ChatOpenAI(model="oss", use_responses_api=True, **HERE).invoke("say: Good morning.")
    assert said.text == "Good morning."


@step
def embeddings():
    embed = OpenAIEmbeddings(model="count", check_embedding_ctx_length=False, **HERE)
    assert len(embed.embed_documents(["abc", "abcdef"])) == 2


finish("langchain-openai")
