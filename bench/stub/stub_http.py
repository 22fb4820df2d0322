"""A vLLM of unlimited speed, as far as its completions go: `python stub_http.py FOLDER` prints its port."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import uvloop
from says import Says, Speaker
from tokenizers import Tokenizer

Event = Callable[[Sequence[int], str | None], str]
"""The JSON of some ids of a stream, and why it ends after them."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n%s\r\n\r\n"
UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 65536}]}


def answer(body: bytes) -> bytes:
    return HEAD % (b"application/json", b"content-length: %d" % len(body)) + body


class Connection(asyncio.Protocol):
    """One request after the other."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._data = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, rest = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", b"0"))
        if len(rest) < length:
            return
        self._data = rest[length:]
        self._answer(head.split(b" ", 2)[1], rest[:length])

    def _answer(self, path: bytes, body: bytes) -> None:
        if path not in (b"/v1/completions", b"/v1/chat/completions"):
            self._transport.write(answer(json.dumps(MODELS).encode()) if path == b"/v1/models" else UNKNOWN)
            return
        request = json.loads(body)
        says = self._speaker.says(request.get("seed") or 0, request["max_tokens"])
        if path == b"/v1/chat/completions":
            self._chat(request, says)
            return
        usage = {"prompt_tokens": len(request["prompt"]), "completion_tokens": len(says.ids)}
        if not request.get("stream"):
            choice = {"index": 0, "text": "", "token_ids": says.ids, "finish_reason": _reason(says)}
            self._transport.write(answer(json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode()))
            return
        self._begin(
            says,
            lambda ids, reason: json.dumps(
                {
                    "id": "c",
                    "object": "text_completion",
                    "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": reason, "token_ids": ids}],
                }
            ),
        )

    def _chat(self, request: dict[str, Any], says: Says) -> None:
        """As text, for gateways that pass it on."""
        about = {"id": "c", "created": 0, "model": "m"}
        if not request.get("stream"):
            message = {"role": "assistant", "content": self._speaker.text(says.ids)}
            choice = {"index": 0, "message": message, "finish_reason": _reason(says)}
            usage = {"prompt_tokens": 1, "completion_tokens": len(says.ids), "total_tokens": 1 + len(says.ids)}
            body = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._transport.write(answer(json.dumps(body).encode()))
            return
        self._begin(
            says,
            lambda ids, reason: json.dumps(
                {
                    **about,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": {"content": self._speaker.text(ids)}, "finish_reason": reason}],
                }
            ),
        )

    def _begin(self, says: Says, event: Event) -> None:
        self._transport.write(HEAD % (b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked"))
        self._task = asyncio.ensure_future(self._stream(says, event))

    async def _stream(self, says: Says, event: Event) -> None:
        loop, messages = asyncio.get_running_loop(), says.messages()
        next = loop.time()
        for number, ids in enumerate(messages, 1):
            if says.pace:
                next += says.pace
                await asyncio.sleep(next - loop.time())
            elif number % 8 == 0:
                await asyncio.sleep(0)
            reason = _reason(says) if number == len(messages) else None
            data = b"data: %s\n\n" % event(ids, reason).encode()
            self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))
        self._transport.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def _reason(says: Says) -> str:
    return "stop" if says.stops else "length"


async def main(folder: Path) -> None:
    speaker = Speaker(Tokenizer.from_file(str(folder / "tokenizer.json")))
    server = await asyncio.get_running_loop().create_server(lambda: Connection(speaker), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
