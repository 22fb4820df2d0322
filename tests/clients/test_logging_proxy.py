"""What the proxy between clients and the server passes on, and what it records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI

from antiphon.api import create_app
from clients.run import unannounced
from kit.api import running
from kit.logging_proxy import Answer, logging_proxy
from kit.obedient import catalog

SAY: Any = [{"role": "user", "content": "say: Good morning."}]


@contextmanager
def proxied() -> Iterator[tuple[str, list[Answer]]]:
    with running(create_app(catalog())) as server, logging_proxy(server) as found:
        yield found


def test_a_stream_passes_as_it_is_and_an_error_is_recorded_with_its_body() -> None:
    with proxied() as (url, answers), OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        with client.chat.completions.create(model="small", messages=SAY, stream=True) as chunks:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        with pytest.raises(NotFoundError):
            client.chat.completions.create(model="nobody", messages=SAY)
        client.models.list()
    assert text == "Good morning."
    kinds = [(answer.method, answer.path, answer.status) for answer in answers]
    chat = ("POST", "/v1/chat/completions")
    assert kinds == [(*chat, 200), (*chat, 404), ("GET", "/v1/models", 200)]
    assert ["nobody" in answer.body for answer in answers] == [False, True, False]


def test_an_answer_without_a_body_does_not_hide_the_next() -> None:
    with proxied() as (url, answers), httpx.Client(base_url=url) as client:
        client.head("/api/version?of=this")
        client.get("/nowhere")
    assert [(one.method, one.path, one.status) for one in answers] == [
        ("HEAD", "/api/version", 200), ("GET", "/nowhere", 404),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")  # How the client uses its library.
def test_a_websocket_passes_through() -> None:
    with (
        proxied() as (url, answers),
        OpenAI(base_url=f"{url}/v1", api_key="any") as client,
        client.responses.connect() as connection,
    ):
        connection.response.create(model="small", input="say: Good morning.")
        last = next(event for event in connection if event.type == "response.completed")
    assert last.response.output_text == "Good morning."
    assert [(one.path, one.status) for one in answers] == [("/v1/responses", 101)]


def test_an_error_that_was_not_announced_is_a_finding_and_so_is_one_announced_in_vain() -> None:
    answers = [Answer("POST", "/v1/messages", status) for status in (200, 400, 400, 404)]
    announced = ["400 /v1/messages", "404 /v1/messages 2"]
    assert unannounced(answers, announced) == ("400 /v1/messages", "no 404 /v1/messages")
    assert unannounced(answers, ["400 /v1/messages *", announced[1]]) == ("no 404 /v1/messages",)
    assert unannounced(answers, ["400 /v1/messages", "400 /v1/messages", "404 /v1/messages"]) == ()
