"""/v1/parse over a WebSocket: each frame is a part of a reply, and the connection knows what came before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.api import Limits
from antiphon.http.gate.keys import new_key
from kit.api import END, THINK, UNTHINK, app, call, ids, serving
from kit.frames import event, opened

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REPLY = ids(THINK, "hm", UNTHINK, "Look: ", *call("f", '{"x": 1}'), END)
PATH = "/v1/parse"


async def ask(socket: ClientConnection, **fields: Any) -> Any:
    await socket.send(json.dumps(fields))
    return await event(socket)


def delta(answer: Any) -> Any:
    (choice,) = answer["chunk"]["choices"]
    return choice["delta"]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_replies_are_read_part_by_part_one_after_the_other(size: int) -> None:
    async with serving(app(REPLY)) as port, opened(port, PATH) as socket:
        for _ in range(2):
            content, arguments, request = "", "", {"tools": [TOOL]}
            for at in range(0, len(REPLY), size):
                answer = await ask(socket, ids=REPLY[at : at + size], **request)
                assert "state" not in answer
                request = {}
                content += delta(answer).get("content", "")
                arguments += "".join(one["function"]["arguments"] for one in delta(answer).get("tool_calls", ()))
            assert (content, arguments, answer["ended"]) == ("Look:", '{"x": 1}', "<|im_end|>")


async def test_what_is_wrong_with_a_frame_is_named_and_nothing_is_lost() -> None:
    async with serving(app(REPLY)) as port, opened(port, PATH) as socket:
        await ask(socket, text="Fi")
        for frame, param in (
            ({"text": "x", "tools": [TOOL]}, "tools"), ({"text": "x", "state": ""}, "state"), ({"ids": [1]}, None),
            ({"text": 5}, "text"), ({}, "text"), ({"text": "x", "finish_reason": "bored"}, "finish_reason"),
        ):  # fmt: skip
            error = (await ask(socket, **frame))["error"]
            assert (error["type"], error["param"]) == ("invalid_request_error", param), error
        for malformed in ("[]", "{", "é"):
            await socket.send(malformed)
            assert (await event(socket))["error"]["code"] in ("invalid_json", "invalid_type")
        await socket.send(b"{}")
        assert (await event(socket))["error"]["code"] == "unsupported_media_type"
        last = await ask(socket, text="ne.", finish_reason="stop")
        assert (delta(last)["content"], last["chunk"]["choices"][0]["finish_reason"]) == ("ne.", "stop")


async def test_a_connection_needs_a_key_and_is_open_so_long() -> None:
    secret, key = new_key("alice")
    async with serving(app(REPLY, keys=[key], limits=Limits(socket_lifetime=1.0))) as port:
        with pytest.raises(InvalidStatus):
            async with opened(port, PATH):
                pass
        async with opened(port, PATH, authorization=f"Bearer {secret}") as socket:
            assert delta(await ask(socket, text="Hi"))["content"] == "Hi"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
