"""Whatever a model says is answered: no reply of any format is too broken for any route, streamed or whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling
from antiphon.formats import Format
from antiphon.formats.openchatml import openchatml
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer
from kit.api import CHATML, END, TOKENIZER, Got, post_in_process, scripted
from kit.responses import HARMONY, VOCABULARY

FORMATS: dict[str, tuple[Format, ByteTokenizer]] = {
    "chatml": (CHATML, TOKENIZER),
    "harmony": (HARMONY, VOCABULARY),
    "openchatml": (openchatml(HARMONY.controls), VOCABULARY),
    "openchatml, spelled out": (openchatml([END]), ByteTokenizer([END])),
}
WORDS = [
    "assistant", "user", " to=functions.f", "to=", "analysis", "final", "commentary", " json", '{"name": "f", ',
    '"arguments": {}}', '{"a":1}', "{", "\n", "\\", "é", "\ufeff", "<|end|>", "</think>", "---\n", "x" * 50,
]  # fmt: skip
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 2, "n": 2, "stop": ["x\n"],
        "tools": [{"type": "function", "function": {"name": "f"}}], "stream_options": {"include_usage": True},
    }),
    ("/v1/completions", {"prompt": "Hi", "logprobs": 1}),
    ("/v1/completions", {"prompt": "Hi", "use_raw_prompt": False}),
    ("/v1/responses", {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": {}}]}),
    ("/v1/responses", {"input": "Hi", "include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}),
    ("/v1/chat/interactive", {"prompt": "Hi"}),
]  # fmt: skip


def replies(tokenizer: ByteTokenizer) -> st.SearchStrategy[list[int]]:
    """Ids: words and controls that formats give a meaning to, and any bytes, halves of characters too."""
    words = st.sampled_from([tokenizer.encode(word) for word in WORDS])
    controls = st.sampled_from([[id] for id in tokenizer.controls.values()])
    junk = st.lists(st.integers(0, 255), min_size=1, max_size=4)
    return st.lists(st.one_of(words, controls, junk), max_size=25).map(
        lambda parts: [id for part in parts for id in part]
    )


class SettableScript:
    """A model that says what the test sets."""

    def __init__(self) -> None:
        self.reply: Sequence[int] = ()

    def __call__(self, prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        return self.reply


def served(name: str, script: Callable[[Sequence[int], Sampling, int], Sequence[int]]) -> Starlette:
    format, tokenizer = FORMATS[name]
    model = Model(name=name, engine=scripted(script, chunk=3), tokenizer=tokenizer, format=format)
    return create_app(StaticCatalog({name: model}))


def checked(got: Got, *, stream: bool) -> None:
    assert got.status == 200, got.body
    text = got.body.decode()  # whole characters only
    if not stream:
        json.loads(text)
        return
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith(("data: ", "{"))]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    assert events
    assert not any("error" in one and one["error"] and one.get("object") != "response" for one in events), text


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("route", range(len(ROUTES)), ids=[f"{path} {len(body)}" for path, body in ROUTES])
def test_no_reply_is_too_broken_to_be_answered(name: str, route: int) -> None:
    path, body = ROUTES[route]
    if name != "chatml" and body.get("prompt") == "Hi" and path == "/v1/completions":
        body = {**body, "use_raw_prompt": False}  # such models are never without their format
    script = SettableScript()
    application = served(name, script)

    @settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(replies(FORMATS[name][1]))
    def property(reply: list[int]) -> None:
        script.reply = reply
        for stream in (False, True):
            fields = {key: value for key, value in body.items() if stream or key != "stream_options"}
            checked(runner.run(post_in_process(application, path, **fields, stream=stream)), stream=stream)

    with asyncio.Runner() as runner:
        property()
