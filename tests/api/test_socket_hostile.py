"""Whatever comes over a WebSocket, the answer is an error or an end, and the server goes on."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.api import Limits
from antiphon.errors import EngineLostError
from kit.api import END, ids, running, scripted, serving
from kit.breaking import Breaking
from kit.frames import create, event, events, opened, responded
from kit.responses import responses_app, text_of
from kit.waiting import PATIENCE, LoopClock, quiet, until

HELLO = ids("Hello there.", END)
LONG = ids("word " * 40_000)
SMALL = Limits(max_body=20_000, max_head=4096)
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n"
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(responses_app(small=scripted(HELLO), limits=SMALL)) as base:
        yield int(base.rpartition(":")[2])


def made(**fields: Any) -> str:
    return json.dumps({"type": "response.create", "input": "Hi", **fields})


NO_EVENTS = [
    "", " ", "null", "[]", "{", "}", "7", '"response.create"', "{}{}", "{'type': 1}", '{"type": "response.create"',
    "\x00", "[" * 9_000, '{"a":' * 3_000, '{"type": NaN}', "event: response.create\n\n", "data: [DONE]",
    '{"type": "response.create", "input": "\ud800"}'.encode("utf-8", "surrogatepass"), b"\xff\xfe", b"",
    "{}", '{"type": null}', '{"type": 5}', '{"type": ["response.create"]}', '{"type": "response.cancel"}',
    '{"type": "response.steer", "previous_response_id": "resp_0", "input": "x"}', '{"type": "session.update"}',
    '{"type": "RESPONSE.CREATE"}', '{"type": "' + "x" * 9_000 + '"}',
]  # fmt: skip
WRONG_FIELDS: list[dict[str, Any]] = [
    {"stream_id": 5}, {"stream_id": ""}, {"stream_id": "x" * 129}, {"stream_id": ["a"]}, {"generate": "no"},
    {"generate": 1}, {"background": True}, {"background": "yes"}, {"input": None}, {"input": []}, {"input": 7},
    {"input": [7]}, {"input": [{"role": "user"}]}, {"model": "nothing"}, {"model": 5}, {"temperature": 9},
    {"previous_response_id": "resp_0"}, {"previous_response_id": "../../etc/passwd"}, {"previous_response_id": 1},
    {"conversation": "conv_0"}, {"max_output_tokens": 0}, {"max_output_tokens": "9"}, {"include": [7]},
    {"tools": [{"type": "function"}]}, {"tool_choice": "required"}, {"text": {"format": {"type": "xml"}}},
    {"reasoning": {"effort": "huge"}}, {"prompt": {"id": "p"}}, {"metadata": {"k": 1}}, {"temprature": 2},
    {"input": [{"type": "compaction", "encrypted_content": "AAAA"}]}, {"context_management": [{"type": "x"}]},
]  # fmt: skip


@pytest.mark.parametrize("frame", NO_EVENTS, ids=lambda frame: repr(frame)[:40])
async def test_a_frame_that_is_no_event_is_refused_and_the_connection_stays(port: int, frame: str | bytes) -> None:
    async with opened(port) as socket:
        await socket.send(frame)
        got = await event(socket)
        assert got["type"] == "error"
        assert 400 <= got["status"] < 500
        assert set(got["error"]) == {"type", "code", "message", "param"}
        assert got["error"]["message"]
        assert "stream_id" not in got
        assert text_of(await responded(socket, input="Hi")) == "Hello there."


@pytest.mark.parametrize("fields", WRONG_FIELDS, ids=lambda fields: str(fields)[:60])
async def test_a_field_at_fault_is_named_and_the_connection_stays(port: int, fields: dict[str, Any]) -> None:
    async with opened(port) as socket:
        await socket.send(made(**fields))
        got = await event(socket)
        assert got["type"] == "error"
        assert 400 <= got["status"] < 500
        (name,) = fields
        assert str(got["error"]["param"]).startswith(name), got
        assert text_of(await responded(socket, input="Hi")) == "Hello there."


async def test_a_frame_in_parts_is_one(port: int) -> None:
    async with opened(port) as socket:
        largest = made() + " " * (SMALL.max_body - len(made()))  # The heads of its frames are half as much again.
        for whole, size in ((made(), 5), (largest, 12)):
            await socket.send(["", *(whole[at : at + size] for at in range(0, len(whole), size))])
            assert (await events(socket))[-1]["type"] == "response.completed"


async def test_a_stream_that_breaks_says_so_in_both_ways(port: int) -> None:
    broken = Breaking(ids("Hel"), EngineLostError("gone"))
    async with serving(responses_app(small=broken)) as other, opened(other) as socket:
        await create(socket, input="Hi")
        got = await events(socket)
    error = next(one for one in got if one["type"] == "error")
    assert error["error"]["message"] == error["message"]
    assert [one["sequence_number"] for one in got] == list(range(len(got)))
    assert got[-1]["type"] == "response.failed"


@pytest.mark.parametrize("parts", [1, 7])
async def test_a_message_that_is_too_large_ends_the_connection(port: int, parts: int) -> None:
    whole = made(input="x" * 25_000)
    size = len(whole) // parts + 1
    async with opened(port) as socket:
        await socket.send([whole[i : i + size] for i in range(0, len(whole), size)])
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
    said = caught.value.rcvd  # None: what the client sent on reset the connection before it read why.
    assert said is None or said.code == 1009
    async with opened(port) as socket:
        assert text_of(await responded(socket, input="Hi")) == "Hello there."


def masked(opcode: int, payload: bytes, *, fin: bool = True, reserved: int = 0, mask: bool = True) -> bytes:
    """A frame as it is on the wire (RFC 6455, section 5.2)."""
    length = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack("!H", len(payload))
    first = bytes([(fin << 7) | (reserved << 4) | opcode])
    if not mask:
        return first + length + payload
    key = os.urandom(4)
    body = bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))
    return first + bytes([length[0] | 0x80]) + length[1:] + key + body


TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
BROKEN = {
    "a frame that is not masked": masked(TEXT, b"{}", mask=False),
    "reserved bits": masked(TEXT, b"{}", reserved=4),
    "an unknown opcode": masked(3, b"{}"),
    "a continuation of nothing": masked(0, b"{}"),
    "a message within a message": masked(TEXT, b"{", fin=False) + masked(TEXT, b"}"),
    "a ping in parts": masked(PING, b"x", fin=False),
    "a ping that is too long": masked(PING, b"x" * 126),
    "a close of one byte": masked(CLOSE, b"x"),
    "a close with a code that is none": masked(CLOSE, struct.pack("!H", 1005)),
    "a text that is not UTF-8": masked(TEXT, b"\xff\xff"),
    "a length without end": b"\x81\xff" + b"\xff" * 12,
    "nothing but noise": bytes(range(256)) * 8,
    "an HTTP request": b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n",
}


async def upgraded(port: int, more: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE + b"\r\n" + more)
    return reader, writer


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_no_frame_ends_the_connection(port: int, what: str) -> None:
    reader, writer = await upgraded(port)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    writer.write(BROKEN[what])
    async with asyncio.timeout(PATIENCE):
        left = await reader.read()
    assert not left or left[0] == 0x88 or b'"error"' in left
    writer.close()
    async with opened(port) as socket:
        assert text_of(await responded(socket, input="Hi")) == "Hello there."


HEADS = {
    "no key": (HANDSHAKE.replace(b"sec-websocket-key", b"x"), b"400"),
    "two keys": (HANDSHAKE + b"sec-websocket-key: BBBBBBBBBBBBBBBBBBBBBB==\r\n", b"400"),
    "another version": (HANDSHAKE.replace(b"13", b"12"), b"400"),
    "a body": (HANDSHAKE + b"content-length: 2\r\n", b"405"),
    "a POST": (HANDSHAKE.replace(b"GET", b"POST") + b"content-length: 0\r\n", b"400"),
    "another protocol": (HANDSHAKE.replace(b"upgrade: websocket", b"upgrade: h2c"), b"405"),
    "another route": (HANDSHAKE.replace(b"/v1/responses", b"/v1/models"), b"200"),
    "no route": (HANDSHAKE.replace(b"/v1/responses", b"/v1/nothing"), b"404"),
    "a path of percent signs": (HANDSHAKE.replace(b"/v1/responses", b"/v1/%72esponses"), b"405"),
    "no host": (HANDSHAKE.replace(b"host: x\r\n", b""), b"400"),
    "too many headers": (HANDSHAKE + b"x: y\r\n" * 200, b"431"),
    "a head that is too large": (HANDSHAKE + b"x: " + b"y" * 5000 + b"\r\n", b"431"),
}


@pytest.mark.parametrize("what", HEADS)
async def test_a_handshake_that_is_none_is_answered_as_a_request(port: int, what: str) -> None:
    head, status = HEADS[what]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head + b"\r\n" + (b"{}" if what == "a body" else b""))
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).split(b" ")[1] == status
    writer.close()


async def test_frames_before_the_handshake_is_answered_open_nothing(port: int) -> None:
    reader, writer = await upgraded(port, masked(TEXT, made().encode()))
    async with asyncio.timeout(PATIENCE):
        assert not (await reader.read()).startswith(b"HTTP/1.1 101 ")
    writer.close()


async def test_a_message_of_countless_tiny_frames_ends_the_connection(port: int) -> None:
    reader, writer = await upgraded(port)
    await reader.readuntil(b"\r\n\r\n")
    writer.write(masked(TEXT, b"", fin=False) + masked(0, b"", fin=False) * 20_000)
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionResetError):  # What it still sent reached nobody.
            assert (await reader.read())[2:4] in (struct.pack("!H", 1009), b"")
    writer.close()
    async with opened(port) as socket:
        assert text_of(await responded(socket, input="Hi")) == "Hello there."


async def test_pings_are_answered_and_count_as_nothing(port: int) -> None:
    reader, writer = await upgraded(port)
    await reader.readuntil(b"\r\n\r\n")
    for _ in range(50):
        writer.write(masked(PING, b"x" * 100) * 20)
        await reader.readexactly(20 * 102)
    writer.write(masked(TEXT, b"{}"))
    assert b'"error"' in await reader.readuntil(b"}}")
    writer.close()


@pytest.mark.one_process("looks at the bodies of its process")
async def test_messages_in_parts_take_together_what_large_bodies_may() -> None:
    limits = Limits(max_bodies=100_000, max_body=90_000, off_loop_above=1000)
    application = responses_app(small=scripted(HELLO), limits=limits)
    async with serving(application) as port:
        first, one = await upgraded(port)
        await first.readuntil(b"\r\n\r\n")
        one.write(masked(TEXT, b" " * 60_000, fin=False))
        large = application.state.context.large
        await until(lambda: large.bytes > 60_000)
        second, two = await upgraded(port)
        await second.readuntil(b"\r\n\r\n")
        two.write(masked(TEXT, b" " * 60_000, fin=False))
        async with asyncio.timeout(PATIENCE):
            assert (await second.read())[2:4] == struct.pack("!H", 1013)
        one.close()
        two.close()
        await until(lambda: large.bytes == 0)


async def test_who_reads_nothing_is_cut_and_the_slot_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = scripted(LONG, context=10**6)
    application = responses_app(small=engine, limits=Limits(send_timeout=0.2, stream_buffer=4096))
    async with serving(application) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(HANDSHAKE + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(masked(TEXT, made(max_output_tokens=200_000).encode()))
        await until(lambda: engine.running == 1)
        await until(lambda: engine.running == 0)
        writer.close()


async def test_of_who_reads_no_answers_nothing_more_is_read() -> None:
    async with serving(responses_app(small=scripted(HELLO))) as port:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
            client.connect(("127.0.0.1", port))
            client.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=client, limit=1024)
            writer.write(HANDSHAKE + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(masked(PING, b"x" * 125) * 100_000)
            await quiet(writer.transport.get_write_buffer_size)
            assert writer.transport.get_write_buffer_size() > 1_000_000
            writer.transport.abort()


@pytest.mark.one_process("sets the clock of its event loop forward")
async def test_a_client_that_does_not_answer_pings_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(responses_app(small=scripted(HELLO))) as port:
        clock = LoopClock(monkeypatch)
        reader, writer = await upgraded(port)
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(3):
            await clock.forward(25)
        left = await reader.read()
        assert left[0] == 0x89
        assert struct.pack("!H", 1011) in left
        writer.close()
