# /// script
# dependencies = ["mlflow-skinny>=3"]
# ///
"""MLflow's deployments client for Databricks, as its own examples use it: predict, as a stream too, list and get."""

import os

from steps import BASE, CHAT, CITIES, EMBEDDER, MORNING, WEATHER, expect_text, expects, finish, step

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
    done = client.predict(endpoint=CHAT, inputs=SAY)
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
    done = client.predict(endpoint=CHAT, inputs={**SAY, **request})
    assert done["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"


@step
def invocations_completions():
    done = client.predict(endpoint=CHAT, inputs={"prompt": "say: Good", "max_tokens": 200})
    expect_text(done["choices"][0]["text"], "Good")


@step
def invocations_embeddings():
    assert len(client.predict(endpoint=EMBEDDER, inputs={"input": ["abc", "abcdef"]})["data"]) == 2


@step
def endpoints():
    found = {one["name"]: one["task"] for one in client.list_endpoints()}
    assert found[CHAT] == "llm/v1/chat"
    assert found.get(EMBEDDER, "llm/v1/embeddings") == "llm/v1/embeddings"  # Listed where its owner lists it.
    assert client.get_endpoint(endpoint=CHAT).name == CHAT


@step
def endpoints_unknown():
    expects(404, "/api/2.0/serving-endpoints/nosuch")
    expects(404, f"/api/2.0/serving-endpoints/{CHAT}")
    for unknown in (lambda: client.get_endpoint(endpoint="nosuch"), lambda: client.delete_endpoint(endpoint=CHAT)):
        try:
            unknown()
        except Exception as error:
            assert "nosuch" in str(error) or "DELETE" in str(error), error
        else:
            raise AssertionError("an endpoint that is not there was found, or one was deleted")


@step
def errors():
    expects(400, f"/serving-endpoints/{CHAT}/invocations")
    try:
        client.predict(endpoint=CHAT, inputs={**SAY, "temperature": 9})
    except Exception as error:
        assert "temperature" in str(error)
        return
    raise AssertionError("a temperature of 9 was taken")


expects(404, "/.well-known/databricks-config", "*")  # the workspace's description, which it can do without
finish("mlflow-skinny")
