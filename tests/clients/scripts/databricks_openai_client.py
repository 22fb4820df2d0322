# /// script
# dependencies = ["databricks-openai>=0.18"]
# ///
"""Databricks' own OpenAI client: chat, completions, embeddings and responses at the endpoints and at the gateway."""

import asyncio
import os

from steps import BASE, CHAT, CITIES, EMBEDDER, MORNING, THINKER, WEATHER, expect_text, expects, finish, step

os.environ |= {"DATABRICKS_HOST": BASE, "DATABRICKS_TOKEN": "any"}

from databricks_openai import AsyncDatabricksOpenAI, DatabricksOpenAI

client = DatabricksOpenAI(max_retries=0)
SAY = [{"role": "user", "content": MORNING}]
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "description": "It.", "parameters": PARAMETERS}}
REQUEST = {"model": CHAT, "messages": SAY, "max_tokens": 200}


@step
def models():
    assert CHAT in {one.id for one in client.models.list()}


@step
def chat():
    expect_text(client.chat.completions.create(**REQUEST).choices[0].message.content, "Good morning.")


@step
def chat_stream():
    for options, at_end in ((None, True), ({"include_usage": True}, False)):
        chunks = list(client.chat.completions.create(**REQUEST, stream=True, stream_options=options))
        expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")
        assert [bool(chunk.choices) for chunk in chunks if chunk.usage] == [at_end]


@step
def chat_tools():
    ask = [{"role": "user", "content": WEATHER}]
    done = client.chat.completions.create(**{**REQUEST, "messages": ask}, tools=[TOOL], tool_choice="required")
    message = done.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "18 degrees"}
    talk = [*ask, message.model_dump(exclude_none=True), result]
    answer = client.chat.completions.create(**{**REQUEST, "messages": talk}, tools=[TOOL], tool_choice="none")
    expect_text(answer.choices[0].message.content, "it said: 18 degrees")


@step
def chat_async():
    async def ask():
        async with AsyncDatabricksOpenAI(max_retries=0) as asking:
            return (await asking.chat.completions.create(**REQUEST)).choices[0].message.content

    expect_text(asyncio.run(ask()), "Good morning.")


@step
def chat_gateway():
    for way in ({"use_ai_gateway": True}, {"use_ai_gateway_native_api": True}):
        done = DatabricksOpenAI(max_retries=0, **way).chat.completions.create(**REQUEST)
        expect_text(done.choices[0].message.content, "Good morning.")


@step
def completions():
    expect_text(client.completions.create(model=CHAT, prompt="say: Good", max_tokens=200).choices[0].text, "Good")


@step
def embeddings():
    made = client.embeddings.create(model=EMBEDDER, input=["abc", "abcdef"])
    assert [one.index for one in made.data] == [0, 1]


@step
def responses():
    made = client.responses.create(model=THINKER, input=MORNING, max_output_tokens=200)
    expect_text(made.output_text, "Good morning.")
    events = list(client.responses.create(model=THINKER, input=MORNING, max_output_tokens=200, stream=True))
    expect_text(events[-1].response.output_text, "Good morning.")


expects(404, "/.well-known/databricks-config", "*")  # the workspace's description, which it can do without
finish("databricks-openai")
