# /// script
# dependencies = ["databricks-sdk>=0.40"]
# ///
"""The Databricks SDK: a served model asked at its own address."""

import os

from databricks.sdk import WorkspaceClient
from databricks.sdk.service.serving import ChatMessage, ChatMessageRole
from steps import BASE, finish, step

for name in [name for name in os.environ if name.startswith("DATABRICKS_")]:
    del os.environ[name]
client = WorkspaceClient(host=BASE, token="any")


@step
def chat():
    said = ChatMessage(role=ChatMessageRole.USER, content="say: Good morning.")
    done = client.serving_endpoints.query("small", messages=[said], max_tokens=40, stream=False)
    assert done.choices[0].message.content == "Good morning."
    assert done.usage.total_tokens > 0


@step
def completion():
    done = client.serving_endpoints.query("small", prompt="say: Good", max_tokens=40, stream=False)
    assert done.choices[0].text == "Good"


@step
def embeddings():
    done = client.serving_endpoints.query("count", input=["abc", "abcdef"])
    assert [one.index for one in done.data] == [0, 1]


finish("databricks-sdk")
