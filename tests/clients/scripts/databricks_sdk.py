# /// script
# dependencies = ["databricks-sdk[openai]>=0.40"]
# ///
"""The Databricks SDK: a served model used at its own address, and through the OpenAI client that the SDK makes."""

import os

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound
from databricks.sdk.service.serving import ChatMessage, ChatMessageRole
from steps import BASE, CHAT, EMBEDDER, MORNING, expect_text, expects, finish, step

for name in [name for name in os.environ if name.startswith("DATABRICKS_")]:
    del os.environ[name]
client = WorkspaceClient(host=BASE, token="any")
USER_MESSAGE = ChatMessage(role=ChatMessageRole.USER, content=MORNING)


@step
def invocations_chat():
    done = client.serving_endpoints.query(CHAT, messages=[USER_MESSAGE], max_tokens=200)
    expect_text(done.choices[0].message.content, "Good morning.")
    assert done.usage.total_tokens > 0


@step
def invocations_completions():
    done = client.serving_endpoints.query(CHAT, prompt="say: Good", max_tokens=200)
    expect_text(done.choices[0].text, "Good")


@step
def invocations_embeddings():
    done = client.serving_endpoints.query(EMBEDDER, input=["abc", "abcdef"])
    assert [one.index for one in done.data] == [0, 1]


@step
def chat_by_openai():
    openai = client.serving_endpoints.get_open_ai_client()
    request = {"model": CHAT, "messages": [{"role": "user", "content": MORNING}], "max_tokens": 200}
    expect_text(openai.chat.completions.create(**request).choices[0].message.content, "Good morning.")
    chunks = openai.chat.completions.create(**request, stream=True)
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")


@step
def endpoints():
    assert CHAT in {one.name for one in client.serving_endpoints.list()}
    found = client.serving_endpoints.get(CHAT)
    assert (found.name, found.task, found.state.ready.value) == (CHAT, "llm/v1/chat", "READY")
    try:
        expects(404, "/api/2.0/serving-endpoints/nosuch")
        client.serving_endpoints.get("nosuch")
    except NotFound as error:
        assert "nosuch" in str(error)
        return
    raise AssertionError("an endpoint that is not there was found")


@step
def errors():
    expects(400, f"/serving-endpoints/{CHAT}/invocations")
    try:
        client.serving_endpoints.query(CHAT, messages=[USER_MESSAGE], temperature=9.0)
    except InvalidParameterValue as error:
        assert "temperature" in str(error)
        return
    raise AssertionError("a temperature of 9 was taken")


expects(404, "/.well-known/databricks-config", "*")  # the workspace's description, which it can do without
finish("databricks-sdk")
