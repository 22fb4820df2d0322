# /// script
# dependencies = ["huggingface_hub>=2.4"]
# ///
"""Hugging Face's InferenceClient: chat, streams, tools, a schema, a regex, embeddings, errors."""

import json

from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from steps import (
    CHAT,
    CITIES,
    MORNING,
    OBEDIENT,
    THINKER,
    TOKENS,
    URL,
    WEATHER,
    expect_text,
    expects,
    finish,
    step,
)

client = InferenceClient(base_url=URL, api_key="any")
SAY = [{"role": "user", "content": MORNING}]
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
    "additionalProperties": False,
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}


@step
def chat():
    answer = client.chat_completion(SAY, model=CHAT, max_tokens=TOKENS, seed=7)
    expect_text(answer.choices[0].message.content, "Good morning.")
    assert answer.usage.total_tokens > 0


@step
def chat_stream():
    chunks = client.chat.completions.create(model=THINKER, messages=SAY, max_tokens=TOKENS, stream=True)
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


@step
def chat_tools():
    history = [{"role": "user", "content": WEATHER}]
    asked = client.chat_completion(history, model=CHAT, tools=[TOOL], tool_choice="required", max_tokens=TOKENS)
    (call,) = asked.choices[0].message.tool_calls[:1]
    assert json.loads(call.function.arguments)["city"] in CITIES
    history += [asked.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}]
    if OBEDIENT:
        said = client.chat_completion(history, model=CHAT, tools=[TOOL], max_tokens=TOKENS)
        expect_text(said.choices[0].message.content, "it said: 18 degrees")


@step
def chat_schema():
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": PARAMETERS, "strict": True}}
    messages = [{"role": "user", "content": 'say: {"city": "Bern"}'}]
    answer = client.chat_completion(messages, model=CHAT, response_format=wanted, max_tokens=TOKENS)
    assert json.loads(answer.choices[0].message.content)["city"] in CITIES


@step
def chat_regex():
    messages = [{"role": "user", "content": "say: 1234"}]
    wanted = {"type": "regex", "value": "[0-9]{4}"}
    answer = client.chat_completion(messages, model=CHAT, response_format=wanted, max_tokens=TOKENS)
    assert answer.choices[0].message.content.isdigit()


@step
def errors():
    expects(404, "/v1/chat/completions")
    try:
        client.chat_completion(SAY, model="nobody")
    except HfHubHTTPError as error:
        assert error.response.status_code == 404
    else:
        raise AssertionError("a model that is not here has answered")


finish("huggingface_hub")
