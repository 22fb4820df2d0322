# /// script
# dependencies = ["any-llm-sdk[anthropic,ollama,openai]>=1.40"]
# ///
"""Mozilla's any-llm: nine of its providers by text, stream and tool; its Responses, Messages, models, embeddings."""

import json
from typing import Literal

import any_llm
from pydantic import BaseModel
from steps import (
    BASE,
    CHAT,
    CITIES,
    EMBEDDER,
    MORNING,
    OBEDIENT,
    THINKER,
    TOKENS,
    URL,
    WEATHER,
    each,
    expect_text,
    expect_weather,
    finish,
    step,
    weather,
)

SAY = [{"role": "user", "content": MORNING}]
HERE = {"api_key": "any", "api_base": URL}
BARE = {"api_key": "any", "api_base": BASE}
MODELS = {
    **{f"chat_{name}": {"provider": name, **HERE} for name in (
        "openai", "vllm", "llamacpp", "llamafile", "deepseek", "openrouter", "databricks",
    )},
    "chat_ollama": {"provider": "ollama", **BARE},
    "messages_anthropic": {"provider": "anthropic", **BARE},
}  # fmt: skip


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def plain(model):
    answer = any_llm.completion(CHAT, messages=SAY, max_tokens=TOKENS, **model)
    expect_text(answer.choices[0].message.content, "Good morning.")


def stream(model):
    chunks = any_llm.completion(CHAT, messages=SAY, max_tokens=TOKENS, stream=True, **model)
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


def tool(model):
    history = [{"role": "user", "content": WEATHER}]
    asked = any_llm.completion(CHAT, messages=history, tools=[weather], max_tokens=TOKENS, **model).choices[0].message
    if not OBEDIENT:
        return
    (call,) = asked.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}
    history += [asked.model_dump(exclude_none=True), result]
    said = any_llm.completion(CHAT, messages=history, tools=[weather], max_tokens=TOKENS, **model).choices[0].message
    expect_weather(said.content)


each(MODELS, plain, stream, tool)


@step
def models():
    assert CHAT in {model.id for model in any_llm.list_models("openai", **HERE)}


@step
def chat_typed():
    messages = [{"role": "user", "content": 'say: {"city": "Bern"}'}]
    answer = any_llm.completion(
        CHAT, provider="openai", messages=messages, response_format=Place, max_tokens=TOKENS, **HERE
    )  # fmt: skip
    assert json.loads(answer.choices[0].message.content)["city"] in CITIES


@step
def responses():
    made = any_llm.responses(THINKER, input_data=MORNING, provider="openai", max_output_tokens=TOKENS, **HERE)
    expect_text(made.output_text, "Good morning.")


@step
def messages():
    made = any_llm.messages(CHAT, messages=SAY, max_tokens=TOKENS, provider="anthropic", **BARE)
    expect_text(made.content[0].text, "Good morning.")


@step
def embeddings():
    assert len(any_llm.embedding(EMBEDDER, ["a cat", "a dog"], provider="openai", **HERE).data) == 2


finish("any-llm-sdk")
