# /// script
# dependencies = ["databricks-sdk[openai]>=0.40"]
# ///
"""The Databricks SDK: a served model used at its own address, and through the OpenAI client that the SDK makes."""

import os

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue
from databricks.sdk.service.serving import ChatMessage, ChatMessageRole
from steps import BASE, CHAT, EMBEDDER, MORNING, expect_text, finish, step

for name in [name for name in os.environ if name.startswith("DATABRICKS_")]:
    del os.environ[name]
client = WorkspaceClient(host=BASE, token="any")
USER_MESSAGE = ChatMessage(role=ChatMessageRole.USER, content=MORNING)


@step
def invocations_chat():
    done = client.serving_endpoints.query(CHAT, messages=[USER_MESSAGE], max_tokens=200, stream=False)
    expect_text(done.choices[0].message.content, "Good morning.")
    assert done.usage.total_tokens > 0


@step
def invocations_completions():
    done = client.serving_endpoints.query(CHAT, prompt="say: Good", max_tokens=200, stream=False)
    expect_text(done.choices[0].text, "Good")


@step
def invocations_embeddings():
    done = client.serving_endpoints.query(EMBEDDER, input=["abc", "abcdef"])
    assert [one.index for one in done.data] == [0, 1]


@step
def chat_by_openai():
    openai = client.serving_endpoints.get_open_ai_client()
    request = {"model": CHAT, "messages": [{"role": "user", "content": MORNING}], "max_tokens": 200}
    expect_text(openai.chat.completions.create(**request, stream=False).choices[0].message.content, "Good morning.")
    chunks = openai.chat.completions.create(**request, stream=True)
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


@step
def errors():
    try:
        client.serving_endpoints.query(CHAT, messages=[USER_MESSAGE], temperature=9.0, stream=False)
    except InvalidParameterValue as error:
        assert "temperature" in str(error)
        return
    raise AssertionError("a temperature of 9 was taken")


finish("databricks-sdk")
