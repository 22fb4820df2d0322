"""Orders that the obedient model follows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import OpenAI

from antiphon.api import create_app
from kit.api import running
from kit.obedient import catalog

PLAN = 'plan: call read {"file": "a"} ;; call edit {"file": "a", "new": "it says say: b"} ;; call read {"file": "a"}'
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {
        key: {"type": "string"} for key in keys
    }, "required": keys}}}
    for name, keys in (("read", ["file"]), ("edit", ["file", "new"]))
]  # fmt: skip


def turns(client: OpenAI, model: str, plan: str) -> list[str]:
    """The calls that the model makes for one user's message, by name, and what it says at last."""
    done: list[str] = []
    history: list[Any] = [{"role": "user", "content": plan}]
    while True:
        message: Any = client.chat.completions.create(model=model, messages=history, tools=TOOLS).choices[0].message
        if not message.tool_calls:
            return [*done, message.content]
        (call,) = message.tool_calls
        json.loads(call.function.arguments)
        done.append(call.function.name)
        history += [message, {"role": "tool", "tool_call_id": call.id, "content": f"result {len(done)}, say: no"}]


@pytest.mark.parametrize("model", ["small", "oss"])
def test_a_plan_takes_a_step_with_each_result_and_then_says_its_last(model: str) -> None:
    with running(create_app(catalog())) as url, OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        assert turns(client, model, f"{PLAN} ;; say done") == ["read", "edit", "read", "done"]
        assert turns(client, model, f"{PLAN} ;; done") == ["read", "edit", "read", "done"]
        assert turns(client, model, PLAN) == ["read", "edit", "read", "it said: result 3, say: no"]
