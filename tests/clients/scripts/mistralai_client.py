# /// script
# dependencies = ["mistralai>=3.7"]
# ///
"""Mistral's own client: chat, streams, tools, structured output, fill-in-the-middle, embeddings, models, errors."""

from typing import Literal

from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from pydantic import BaseModel
from steps import BASE, CHAT, CITIES, EMBEDDER, MORNING, OBEDIENT, WEATHER, expect_text, expects, finish, step

client = Mistral(api_key="any", server_url=BASE)
SAY = [{"role": "user", "content": MORNING}]
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
MIDDLE = {"model": CHAT, "prompt": MORNING, "suffix": "\n", "max_tokens": 200}


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


@step
def models():
    listed = {model.id: model for model in client.models.list().data}
    assert listed[CHAT].type == "base"
    one = client.models.retrieve(model_id=CHAT)
    assert one.capabilities.completion_chat
    assert one.capabilities.completion_fim is OBEDIENT
    assert one.max_context_length > 1000


@step
def chat():
    answer = client.chat.complete(model=CHAT, messages=SAY, max_tokens=200, random_seed=7)
    expect_text(answer.choices[0].message.content, "Good morning.")
    assert answer.usage.total_tokens > 0


@step
def chat_stream():
    with client.chat.stream(model=CHAT, messages=SAY, max_tokens=200) as events:
        chunks = [event.data for event in events]
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "Good morning.")
    assert chunks[-1].choices[0].finish_reason


@step
def chat_tools():
    messages = [{"role": "user", "content": WEATHER}]
    answer = client.chat.complete(model=CHAT, messages=messages, tools=[TOOL], tool_choice="any", max_tokens=200)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "weather"
    result = {"role": "tool", "content": "18 degrees", "tool_call_id": call.id, "name": "weather"}
    history = [*messages, answer.choices[0].message, result]
    said = client.chat.complete(model=CHAT, messages=history, tools=[TOOL], max_tokens=200).choices[0].message
    if OBEDIENT:
        expect_text(said.content, "it said: 18 degrees")


@step
def chat_parse():
    messages = [{"role": "user", "content": 'say: {"city": "Bern"}'}]
    answer = client.chat.parse(response_format=Place, model=CHAT, messages=messages, max_tokens=200)
    assert answer.choices[0].message.parsed.city in CITIES


@step
def completions():
    """A model without the marks of a middle says so, by the field."""
    try:
        answer = client.fim.complete(**MIDDLE)
    except SDKError as error:
        assert not OBEDIENT, error.body
        assert "suffix cannot be honoured" in error.body
        expects(400, "/v1/fim/completions")
    else:
        expect_text(answer.choices[0].message.content, "Good morning.")
        assert answer.usage.completion_tokens > 0


@step
def completions_stream():
    body = {**MIDDLE, "suffix": "\n" if OBEDIENT else None}
    with client.fim.stream(**body) as events:
        chunks = [event.data for event in events]
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "Good morning.")
    assert chunks[-1].usage.completion_tokens > 0


@step
def embeddings():
    assert len(client.embeddings.create(model=EMBEDDER, inputs=["a cat", "a dog"]).data) == 2


@step
def errors():
    expects(404, "/v1/chat/completions")
    try:
        client.chat.complete(model="nobody", messages=SAY)
    except SDKError as error:
        assert error.status_code == 404
    else:
        raise AssertionError("a model that is not here has answered")


finish("mistralai")
