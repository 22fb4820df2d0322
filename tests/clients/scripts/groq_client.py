# /// script
# dependencies = ["groq>=1.7"]
# ///
"""Groq's client: chat, streams, tools, structured output, models, embeddings, errors."""

import json

import groq
from steps import (
    BASE,
    CHAT,
    CITIES,
    EMBEDDER,
    MORNING,
    OBEDIENT,
    THINKER,
    TOKENS,
    WEATHER,
    expect_text,
    expects,
    finish,
    step,
)

client = groq.Groq(base_url=BASE, api_key="any", max_retries=0)
SAY = [{"role": "user", "content": MORNING}]
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
    "additionalProperties": False,
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


@step
def models():
    assert {CHAT, THINKER} <= {model.id for model in client.models.list().data}
    assert client.models.retrieve(CHAT).id == CHAT


@step
def chat():
    answer = client.chat.completions.create(model=CHAT, messages=SAY, max_completion_tokens=TOKENS, seed=7)
    expect_text(answer.choices[0].message.content, "Good morning.")
    assert answer.usage.total_tokens > 0


@step
def chat_stream():
    with client.chat.completions.create(model=THINKER, messages=SAY, max_tokens=TOKENS, stream=True) as chunks:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    expect_text(text, "Good morning.")


@step
def chat_tools():
    history = [{"role": "user", "content": WEATHER}]
    options = {"model": THINKER, "tools": [TOOL], "max_tokens": TOKENS}
    asked = client.chat.completions.create(messages=history, tool_choice="required", **options).choices[0].message
    call = asked.tool_calls[0]
    assert json.loads(call.function.arguments)["city"] in CITIES
    history += [asked, *({"role": "tool", "tool_call_id": one.id, "content": "18 degrees"} for one in asked.tool_calls)]
    said = client.chat.completions.create(messages=history, **options).choices[0].message
    if OBEDIENT:
        expect_text(said.content, "it said: 18 degrees")


@step
def chat_reasoning():
    asked = {"model": THINKER, "messages": SAY, "max_tokens": TOKENS}
    answer = client.chat.completions.create(**asked, reasoning_format="parsed", reasoning_effort="low")
    expect_text(answer.choices[0].message.content, "Good morning.")
    expects(400, "/openai/v1/chat/completions")
    try:
        client.chat.completions.create(**asked, reasoning_format="raw")
    except groq.BadRequestError as error:
        assert error.body["error"]["param"] == "reasoning_format"
    else:
        raise AssertionError("thoughts among the text were promised")


@step
def chat_schema():
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": PARAMETERS, "strict": True}}
    messages = [{"role": "user", "content": 'say: {"city": "Bern"}'}]
    answer = client.chat.completions.create(model=CHAT, messages=messages, response_format=wanted, max_tokens=TOKENS)
    assert json.loads(answer.choices[0].message.content)["city"] in CITIES


@step
def embeddings():
    assert len(client.embeddings.create(model=EMBEDDER, input=["a cat", "a dog"]).data) == 2


@step
def errors():
    expects(404, "/openai/v1/chat/completions")
    try:
        client.chat.completions.create(model="nobody", messages=SAY)
    except groq.NotFoundError as error:
        assert error.body["error"]["code"] == "model_not_found"
    else:
        raise AssertionError("a model that is not here has answered")


finish("groq")
