"""Images in: what takes none says so at the part, on every wire, and names the model."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette

from kit.api import exchange, post_in_process
from kit.obliging import chatting_and_embedding

pytestmark = pytest.mark.asyncio
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
REMOTE = "http://169.254.169.254/latest/meta-data/a.png"
URLS = (PNG, REMOTE, "https://example.com/a.png", "file:///etc/passwd", "", "data:image/png;base64,%%%")
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TEXT = {"type": "input_text", "text": "x"}
LOOK = {"type": "text", "text": "look"}


def chat_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "high"}}


def input_part(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


@pytest.fixture(scope="module")
def app() -> Starlette:
    return chatting_and_embedding()


def user(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


PLACES: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", user(chat_part(PNG)), "messages[0].content[0]"),
    ("/v1/chat/completions", user(LOOK, chat_part(PNG)), "messages[0].content[1]"),
    ("/v1/chat/completions", {**user(LOOK, chat_part(PNG)), "stream": True}, "messages[0].content[1]"),
    ("/v1/chat/completions", {**user(LOOK, chat_part(PNG)), "session_id": "s"}, "messages[0].content[1]"),
    ("/chat/completions", user(LOOK, LOOK, chat_part(PNG)), "messages[0].content[2]"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "system", "content": [chat_part(PNG)]}, {"role": "user", "content": "x"}]},
        "messages[0].content[0]",
    ),
    (
        "/v1/chat/completions",
        {"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": [LOOK, chat_part(PNG)]},
        ]},
        "messages[2].content[1]",
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [chat_part(PNG)]}]},
        "messages[1].content[0]",
    ),
    ("/v1/render", user(LOOK, chat_part(PNG)), "messages[0].content[1]"),
    ("/v1/tokenize", user(LOOK, chat_part(PNG)), "messages[0].content[1]"),
    ("/serving-endpoints/smollm2/invocations", user(chat_part(PNG)), "messages[0].content[0]"),
    ("/v1/responses", {"input": [{"role": "user", "content": [input_part(PNG)]}]}, "input[0].content[0]"),
    (
        "/v1/responses",
        {"input": [{"role": "user", "content": [TEXT, input_part(PNG)]}], "stream": True},
        "input[0].content[1]",
    ),
    ("/v1/responses/compact", {"input": [{"role": "user", "content": [input_part(PNG)]}]}, "input[0].content[0]"),
    ("/v1/responses/input_tokens", {"input": [{"role": "user", "content": [input_part(PNG)]}]}, "input[0].content[0]"),
    (
        "/v1/responses",
        {"input": [
            {"role": "user", "content": "x"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [input_part(PNG)]},
        ]},
        "input[2].output[0]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "fields", "param"), PLACES)
async def test_an_image_is_refused_at_its_place_and_the_model_is_named(
    app: Starlette, path: str, fields: dict[str, Any], param: str
) -> None:
    got = await post_in_process(app, path, model="smollm2", **fields)
    assert got.status == 400, got.body
    if path.startswith("/serving-endpoints"):
        assert "smollm2" in got.json["message"]
        return
    assert (got.error["code"], got.error["param"], got.error["type"]) == (
        "unsupported_content", param, "invalid_request_error",
    )  # fmt: skip
    assert got.error["message"].startswith(f"{param}: ")
    assert "'smollm2' reads text" in got.error["message"]


@pytest.mark.parametrize("url", URLS)
async def test_whatever_an_image_is_nothing_is_fetched_and_nothing_of_it_comes_back(app: Starlette, url: str) -> None:
    for path, fields in (
        ("/v1/chat/completions", user(chat_part(url))),
        ("/v1/responses", {"input": [{"role": "user", "content": [input_part(url)]}]}),
    ):
        got = await post_in_process(app, path, model="smollm2", **fields)
        assert (got.status, got.error["code"]) == (400, "unsupported_content")
        assert not url or url not in got.body.decode()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image_url"},
        {"type": "image_url", "image_url": PNG},
        {"type": "image_url", "image_url": None},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "image_embeds", "image_embeds": "AAAA"},
        {"type": "video_url", "video_url": {"url": PNG}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf"}},
    ],
)
async def test_media_of_every_kind_are_refused_alike(app: Starlette, part: dict[str, Any]) -> None:
    for path, fields, param in (
        ("/v1/chat/completions", user(LOOK, part), "messages[0].content[1]"),
        ("/v1/responses", {"input": [{"role": "user", "content": [part]}]}, "input[0].content[0]"),
    ):
        got = await post_in_process(app, path, model="smollm2", **fields)
        assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_content", param), got.body
        assert repr(part["type"]) in got.error["message"]
        assert "'smollm2' reads text" in got.error["message"]


async def test_the_default_model_is_named_too(app: Starlette) -> None:
    got = await post_in_process(app, "/v1/chat/completions", **user(chat_part(PNG)))
    assert "'smollm2' reads text" in got.error["message"]


async def test_ten_thousand_images_are_one_refusal(app: Starlette) -> None:
    parts = [LOOK, *[chat_part("data:,x")] * 10_000]
    got = await exchange(app, "/v1/chat/completions", {"model": "smollm2", **user(*parts)}, [])
    assert (got.status, got.error["param"]) == (400, "messages[0].content[1]")
    assert len(got.body) < 500
