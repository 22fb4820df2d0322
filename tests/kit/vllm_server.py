"""A small server that speaks vLLM's wire as it is documented, and the fixture that runs it on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest_asyncio
from aiohttp import web

SAYS = [3, 1, 4, 15, 9, 2, 6, 5, 35, 8]
END, CONTEXT = 8, 32


class Vllm:
    """Says `SAYS`. ``requests`` are the bodies that came; ``open`` counts the replies that are being written."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self.open = 0
        self.name = "toy"
        self.breaks_after: int | None = None
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/completions", self.completions)
        return app

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.name, "max_model_len": CONTEXT}]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        if body["prompt"] == [13]:
            error = {"message": "no", "type": "BadRequestError", "param": None, "code": 400}
            return web.json_response({"error": error}, status=400)
        if "prompt_logprobs" in body:
            return web.json_response({"choices": [{"index": 0, "text": "!", "prompt_logprobs": self._scored(body)}]})
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        self.open += 1
        try:
            for choice in range(body["n"]):
                await self._say(reply, body, choice)
            await reply.write(b"data: [DONE]\n\n")
        finally:
            self.open -= 1
        return reply

    def _scored(self, body: dict[str, object]) -> list[object]:
        """As probable as what it says: each id of the prompt, and those after it."""
        prompt, count = body["prompt"], body["prompt_logprobs"]
        assert isinstance(prompt, list)
        assert isinstance(count, int)
        near = range(max(1, count))
        own = [{str(id + i): {"logprob": -0.5 * (i + 1), "rank": i + 1} for i in near} for id in prompt[1:]]
        return [None, *own]

    async def _say(self, reply: web.StreamResponse, body: dict[str, object], choice: int) -> None:
        limit, stops = body["max_tokens"], body["stop_token_ids"]
        assert isinstance(limit, int)
        assert isinstance(stops, list)
        for count, id in enumerate(SAYS[:limit], 1):
            if self.breaks_after == count:
                raise ConnectionResetError
            stopped = id in (END, *stops)
            logprobs = None
            if "logprobs" in body:
                top = {f"token_id:{id}": -0.5, f"token_id:{id + 1}": -1.0, f"token_id:{id + 2}": -2.0}
                logprobs = {"tokens": [f"token_id:{id}"], "token_logprobs": [-0.5], "top_logprobs": [top]}
            reason = "stop" if stopped else "length" if count == limit else None
            entry = {"index": choice, "text": "", "token_ids": [id], "logprobs": logprobs, "finish_reason": reason}
            await reply.write(b"data: " + json.dumps({"choices": [entry]}).encode() + b"\n\n")
            await asyncio.sleep(0)
            if stopped:
                return


@pytest_asyncio.fixture
async def vllm() -> AsyncIterator[Vllm]:
    server = Vllm()
    runner = web.AppRunner(server.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()
