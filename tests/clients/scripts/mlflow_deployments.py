# /// script
# dependencies = ["mlflow-skinny>=3"]
# ///
"""MLflow's deployments client for Databricks: predict, and predict as a stream."""

import os

from steps import BASE, finish, step

os.environ |= {"DATABRICKS_HOST": BASE, "DATABRICKS_TOKEN": "any"}

from mlflow.deployments import get_deploy_client

client = get_deploy_client("databricks")
SAY = {"messages": [{"role": "user", "content": "say: Good morning."}], "max_tokens": 40}


@step
def predict():
    done = client.predict(endpoint="small", inputs={**SAY, "stream": False})
    assert done["choices"][0]["message"]["content"] == "Good morning."


@step
def predict_stream():
    chunks = client.predict_stream(endpoint="small", inputs=SAY)
    texts = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    assert "".join(texts) == "Good morning."


@step
def embeddings():
    assert len(client.predict(endpoint="count", inputs={"input": ["abc", "abcdef"]})["data"]) == 2


finish("mlflow-skinny")
