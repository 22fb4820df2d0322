# /// script
# dependencies = ["litellm>=1.106", "mcp>=1", "pyyaml"]
# ///
"""LiteLLM, as its prefixes for OpenAI's own and for self-hosted servers reach us, and its bridges between APIs."""

import asyncio
import os
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import yaml
from steps import (
    BASE,
    CHAT,
    CITIES,
    CONNECTION,
    EMBEDDER,
    MORNING,
    OBEDIENT,
    THINKER,
    URL,
    WEATHER,
    expect_text,
    expects,
    finish,
    step,
)

HERE = {"api_base": URL, "api_key": "any", "num_retries": 0}
RESPONSES = {"model": f"openai/{THINKER}", "api_base": URL, "api_key": "any", "max_output_tokens": 200}
SHORT = {"max_tokens": 200}
SAY = [{"role": "user", "content": MORNING}]
CALL = [{"role": "user", "content": WEATHER}]
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


@step
def chat_proxy_file():
    router = litellm.Router(model_list=yaml.safe_load(Path(CONNECTION["file"]).read_text())["model_list"])
    expect_text(router.completion(CHAT, SAY, **SHORT).choices[0].message.content, "Good morning.")


@step
def chat():
    for prefix in ("openai", "hosted_vllm"):
        done = litellm.completion(model=f"{prefix}/{CHAT}", messages=SAY, **HERE, **SHORT)
        expect_text(done.choices[0].message.content, "Good morning.")


@step
def chat_stream():
    chunks = litellm.completion(
        model=f"openai/{CHAT}", messages=SAY, stream=True, stream_options={"include_usage": True}, **HERE, **SHORT
    )
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


@step
def chat_tools():
    done = litellm.completion(
        model=f"openai/{THINKER}", messages=CALL, tools=[TOOL], tool_choice="required", **HERE, **SHORT
    )
    assert done.choices[0].message.tool_calls[0].function.name == "weather"


@step
def completions():
    done = litellm.text_completion(model=f"text-completion-openai/{CHAT}", prompt="say: Good", **HERE, **SHORT)
    expect_text(done.choices[0].text, "Good")


@step
def embeddings():
    answer = litellm.embedding(model=f"openai/{EMBEDDER}", input=["abc", "abcdef"], encoding_format="float", **HERE)
    assert len(answer.data) == 2


@step
def rerank():
    answer = litellm.rerank(model=f"hosted_vllm/{EMBEDDER}", query="abc", documents=["aaaaaa", "abc"], top_n=1, **HERE)
    assert [one["index"] for one in answer.results] == [1]


@step
def responses():
    made = litellm.responses(input=MORNING, **RESPONSES)
    (text,) = (part.text for item in made.output if item.type == "message" for part in item.content)
    expect_text(text, "Good morning.")


@step
def responses_stream():
    events = litellm.responses(input=MORNING, stream=True, **RESPONSES)
    expect_text("".join(event.delta for event in events if event.type == "response.output_text.delta"), "Good morning.")


@step
def responses_tools():
    flat = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
    made = litellm.responses(input=WEATHER, tools=[flat], tool_choice="required", **RESPONSES)
    assert any(item.type == "function_call" and item.name == "weather" for item in made.output)


ANTHROPIC = {"api_base": BASE, "api_key": "any", "num_retries": 0}
OLLAMA = {"api_base": BASE, "num_retries": 0}
SAID_IN_MESSAGES = {"messages": SAY, "max_tokens": 200}


def called(done):
    (call, *_) = done.choices[0].message.tool_calls
    assert (call.function.name, done.choices[0].finish_reason) == ("weather", "tool_calls")
    return call


@step
def messages():
    done = litellm.completion(model=f"anthropic/{CHAT}", messages=SAY, **ANTHROPIC, **SHORT)
    expect_text(done.choices[0].message.content, "Good morning.")


@step
def messages_stream():
    chunks = litellm.completion(model=f"anthropic/{CHAT}", messages=SAY, stream=True, **ANTHROPIC, **SHORT)
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


@step
def messages_tools():
    fields = {"model": f"anthropic/{THINKER}", "tools": [TOOL], **ANTHROPIC, **SHORT}
    done = litellm.completion(messages=CALL, tool_choice="required", **fields)
    call = called(done)
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    answer = litellm.completion(messages=[*CALL, done.choices[0].message, result], **fields)
    expect_text(answer.choices[0].message.content, "it said: sunny")


@step
def messages_own():
    """LiteLLM's own function of this API, which has it pass."""
    made = asyncio.run(litellm.anthropic_messages(model=f"anthropic/{CHAT}", **SAID_IN_MESSAGES, **ANTHROPIC))
    expect_text(made["content"][0]["text"], "Good morning.")


@step
def messages_responses():
    made = litellm.responses(model=f"anthropic/{CHAT}", input=MORNING, max_output_tokens=200, **ANTHROPIC)
    (text,) = (part.text for item in made.output if item.type == "message" for part in item.content)
    expect_text(text, "Good morning.")


@step
def chat_messages():
    """Messages that LiteLLM answers by our chat."""
    made = asyncio.run(litellm.anthropic_messages(model=f"hosted_vllm/{CHAT}", **SAID_IN_MESSAGES, **HERE))
    expect_text(made["content"][0]["text"], "Good morning.")


@step
def chat_messages_stream():
    async def received():
        made = await litellm.anthropic_messages(model=f"hosted_vllm/{CHAT}", stream=True, **SAID_IN_MESSAGES, **HERE)
        return b"".join([part if isinstance(part, bytes) else str(part).encode() async for part in made]).decode()

    events = asyncio.run(received())
    assert "message_stop" in events, events


@step
def chat_ollama():
    for prefix in ("ollama_chat", "ollama"):
        done = litellm.completion(model=f"{prefix}/{CHAT}", messages=SAY, **OLLAMA, **SHORT)
        expect_text(done.choices[0].message.content, "Good morning.")


@step
def chat_ollama_stream():
    chunks = litellm.completion(model=f"ollama_chat/{CHAT}", messages=SAY, stream=True, **OLLAMA, **SHORT)
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


@step
def chat_ollama_tools():
    done = litellm.completion(model=f"ollama_chat/{CHAT}", messages=CALL, tools=[TOOL], **OLLAMA, **SHORT)
    if OBEDIENT:
        assert done.choices[0].message.tool_calls[0].function.name == "weather"


@step
def embeddings_ollama():
    answer = litellm.embedding(model=f"ollama/{EMBEDDER}", input=["abc", "abcdef"], **OLLAMA)
    assert len(answer.data) == 2


@step
def errors_messages():
    expects(404, "/v1/messages")
    try:
        litellm.completion(model="anthropic/large", messages=SAY, **ANTHROPIC, **SHORT)
    except litellm.NotFoundError:
        return
    raise AssertionError("an unknown model was answered")


@step
def errors():
    expects(404, "/v1/chat/completions")
    try:
        litellm.completion(model="openai/large", messages=SAY, **HERE)
    except litellm.NotFoundError:
        return
    raise AssertionError("an unknown model was answered")


finish("litellm")
