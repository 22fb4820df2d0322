# /// script
# dependencies = ["litellm>=1.106", "mcp>=1"]
# ///
"""LiteLLM, as its prefixes for OpenAI's own and for self-hosted servers reach us."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from steps import URL, finish, step

HERE = {"api_base": URL, "api_key": "any", "num_retries": 0}
SAY = [{"role": "user", "content": "say: Good morning."}]
CALL = [{"role": "user", "content": 'call: weather {"city": "Bern"}'}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


@step
def chat():
    for prefix in ("openai", "hosted_vllm"):
        done = litellm.completion(model=f"{prefix}/small", messages=SAY, **HERE)
        assert done.choices[0].message.content == "Good morning."


@step
def chat_stream():
    chunks = litellm.completion(
        model="openai/small", messages=SAY, stream=True, stream_options={"include_usage": True}, **HERE
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Good morning."


@step
def tools():
    done = litellm.completion(model="openai/oss", messages=CALL, tools=[WEATHER], **HERE)
    assert done.choices[0].message.tool_calls[0].function.name == "weather"


@step
def embeddings():
    told = litellm.embedding(model="openai/count", input=["abc", "abcdef"], encoding_format="float", **HERE)
    assert len(told.data) == 2


@step
def responses():
    made = litellm.responses(model="openai/oss", input="say: Good morning.", api_base=URL, api_key="any")
    texts = [part.text for item in made.output if item.type == "message" for part in item.content]
    assert texts == ["Good morning."]


@step
def responses_stream():
    events = litellm.responses(model="openai/oss", input="say: Good morning.", stream=True, api_base=URL, api_key="any")
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Good morning."


@step
def errors():
    try:
        litellm.completion(model="openai/large", messages=SAY, **HERE)
    except litellm.NotFoundError:
        return
    raise AssertionError("an unknown model was answered")


finish("litellm")
