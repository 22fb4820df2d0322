# /// script
# dependencies = ["mlflow-skinny>=3"]
# ///
"""MLflow's deployments client for Databricks: predict, and predict as a stream."""

import os

from steps import BASE, CHAT, CITIES, EMBEDDER, MORNING, WEATHER, expect_text, finish, step

os.environ |= {"DATABRICKS_HOST": BASE, "DATABRICKS_TOKEN": "any"}

from mlflow.deployments import get_deploy_client

client = get_deploy_client("databricks")
SAY = {"messages": [{"role": "user", "content": MORNING}], "max_tokens": 200}
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "description": "It.", "parameters": PARAMETERS}}


@step
def invocations_chat():
    done = client.predict(endpoint=CHAT, inputs={**SAY, "stream": False})
    expect_text(done["choices"][0]["message"]["content"], "Good morning.")


@step
def invocations_chat_stream():
    chunks = client.predict_stream(endpoint=CHAT, inputs=SAY)
    expect_text(
        "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]),
        "Good morning.",
    )


@step
def invocations_chat_tools():
    request = {"messages": [{"role": "user", "content": WEATHER}], "tools": [TOOL], "tool_choice": "required"}
    done = client.predict(endpoint=CHAT, inputs={**SAY, **request, "stream": False})
    assert done["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"


@step
def invocations_completions():
    done = client.predict(endpoint=CHAT, inputs={"prompt": "say: Good", "max_tokens": 200, "stream": False})
    expect_text(done["choices"][0]["text"], "Good")


@step
def invocations_embeddings():
    assert len(client.predict(endpoint=EMBEDDER, inputs={"input": ["abc", "abcdef"]})["data"]) == 2


@step
def errors():
    try:
        client.predict(endpoint=CHAT, inputs={**SAY, "temperature": 9, "stream": False})
    except Exception as error:
        assert "temperature" in str(error)
        return
    raise AssertionError("a temperature of 9 was taken")


finish("mlflow-skinny")
