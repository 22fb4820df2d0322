"""A small server that speaks vLLM's wire as it is documented, and the fixture that runs it on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from aiohttp import web

from kit.aiohttp_site import listening

SAYS = [3, 1, 4, 15, 9, 2, 6, 5, 35, 8]
END, CONTEXT = 8, 32
BEGIN, PAD, CLOSE = 20, 21, 22
"""What stands for an image in a chat that it renders."""


class Vllm:
    """Says `SAYS`. ``requests`` are the bodies that came; ``open`` counts the replies that are being written.

    ``native``: it has the route that is about ids (`--enable-scale-out`), whose bodies come to ``natives``. ``cached``:
    what it says of its cache (`--enable-prompt-tokens-details`). ``waits``: whole replies never come. ``unlikely``: two
    ids are more probable than it says. ``pads``: how many ids each image has that it is shown; 0: it sees none;
    ``mark``: what it writes for one.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self.open = 0
        self.name = "toy"
        self.breaks_after: int | None = None
        self.waits = False
        self.native = False
        self.natives: list[dict[str, Any]] = []
        self.cached: int | None = None
        self.unlikely = False
        self.pads = 0
        self.mark = (BEGIN, PAD, CLOSE)
        self.context = CONTEXT
        self.shown: list[str] = []
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/completions", self.completions)
        app.router.add_post("/inference/v1/generate", self.generate)
        app.router.add_post("/v1/completions/render", self.render)
        app.router.add_post("/v1/chat/completions/render", self.render_chat)
        return app

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.name, "max_model_len": self.context}]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        if body["prompt"] == [13]:
            error = {"message": "no", "type": "BadRequestError", "param": None, "code": 400}
            return web.json_response({"error": error}, status=400)
        if "prompt_logprobs" in body:
            return web.json_response({"choices": [{"index": 0, "text": "!", "prompt_logprobs": self._scored(body)}]})
        return await self._reply(request, body, body)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        if not self.native:
            return web.json_response({"detail": "Not Found"}, status=404)
        body = await request.json()
        if "token_ids" not in body:
            error = {"message": "token_ids: Field required", "type": "Bad Request", "param": "token_ids", "code": 400}
            return web.json_response({"error": error}, status=400)
        self.natives.append(body)
        if body["token_ids"] == [13]:
            return web.json_response({"error": {"message": "no", "type": "BadRequestError", "code": 400}}, status=400)
        return await self._reply(request, body, body["sampling_params"])

    async def render(self, request: web.Request) -> web.Response:
        if not self.native:
            return web.json_response({"detail": "Not Found"}, status=404)
        ids = list((await request.json())["prompt"].encode())
        return web.json_response([{"request_id": "r", "token_ids": ids, "sampling_params": {}}])

    async def render_chat(self, request: web.Request) -> web.Response:
        """A chat of images alone: each as a begin, pads and an end, with what stands for its tensors."""
        if not (self.native and self.pads):
            return web.json_response({"error": {"message": "not multimodal", "code": 400}}, status=400)
        (message,) = (await request.json())["messages"]
        self.shown = [part["image_url"]["url"].partition(",")[2] for part in message["content"]]
        (begin, pad, close), token_ids, places = self.mark, [1], []
        for _ in self.shown:
            places.append({"offset": len(token_ids) + 1, "length": self.pads})
            token_ids += [begin, *[pad] * self.pads, close]
        features = {
            "mm_hashes": {"image": [f"hash of {one[-9:]}" for one in self.shown]},
            "mm_placeholders": {"image": places},
            "kwargs_data": {"image": ["tensors"] * len(self.shown)},
        }
        return web.json_response({"request_id": "r", "token_ids": [*token_ids, 2], "features": features})

    async def _reply(self, request: web.Request, body: dict[str, Any], how: dict[str, Any]) -> web.StreamResponse:
        if not body["stream"]:
            return await self._whole(request, body)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        self.open += 1
        try:
            for choice in range(how["n"]):
                await self._say(reply, how, choice, native=how is not body)
            if body["stream_options"]["include_usage"]:
                await write(reply, {"choices": [], "usage": self._usage()})
            await reply.write(b"data: [DONE]\n\n")
        finally:
            self.open -= 1
        return reply

    async def _whole(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        assert "stream_options" not in body, "the server refuses them without a stream"
        self.open += 1
        try:
            if self.breaks_after is not None:
                hang_up(request)
            if self.waits:
                await asyncio.Event().wait()
            choices = [self._choice(body, choice) for choice in range(body["n"])]
            return web.json_response({"choices": choices, "usage": self._usage()})
        finally:
            self.open -= 1

    def _choice(self, how: dict[str, Any], choice: int) -> dict[str, object]:
        said = SAYS[: how["max_tokens"]]
        ends = [count for count, id in enumerate(said, 1) if id in (END, *how["stop_token_ids"])]
        ids = said[: ends[0]] if ends else said
        logprobs = None
        if "logprobs" in how:
            each = [spelled(id) for id in ids]
            logprobs = {key: [value for one in each for value in one[key]] for key in each[0]}
        return {
            "index": choice, "text": "", "token_ids": ids, "logprobs": logprobs,
            "finish_reason": "stop" if ends else "length",
        }  # fmt: skip

    def _usage(self) -> dict[str, object]:
        counts: dict[str, object] = {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}
        return counts if self.cached is None else counts | {"prompt_tokens_details": {"cached_tokens": self.cached}}

    def _scored(self, body: dict[str, object]) -> list[object]:
        """As probable as what it says: each id of the prompt, and those after it."""
        prompt, count = body["prompt"], body["prompt_logprobs"]
        assert isinstance(prompt, list)
        assert isinstance(count, int)
        near = range(max(1, count))
        own = [{str(id + i): {"logprob": -0.5 * (i + 1), "rank": i + 1} for i in near} for id in prompt[1:]]
        return [None, *own]

    async def _say(self, reply: web.StreamResponse, how: dict[str, Any], choice: int, *, native: bool) -> None:
        limit, stops = how["max_tokens"], how["stop_token_ids"]
        for count, id in enumerate(SAYS[:limit], 1):
            if self.breaks_after == count:
                raise ConnectionResetError
            stopped = id in (END, *stops)
            logprobs = None
            if "logprobs" in how:
                logprobs = entries(id, how["logprobs"], unlikely=self.unlikely) if native else spelled(id)
            reason = "stop" if stopped else "length" if count == limit else None
            entry = {"index": choice, "token_ids": [id], "logprobs": logprobs, "finish_reason": reason}
            await write(reply, {"choices": [entry if native else {**entry, "text": ""}], "usage": None})
            await asyncio.sleep(0)
            if stopped:
                return


def spelled(id: int) -> dict[str, list[Any]]:
    """Log probabilities of completions, whose tokens are texts."""
    top = {f"token_id:{id}": -0.5, f"token_id:{id + 1}": -1.0, f"token_id:{id + 2}": -2.0}
    return {"tokens": [f"token_id:{id}"], "token_logprobs": [-0.5], "top_logprobs": [top]}


def entries(id: int, count: int, *, unlikely: bool) -> dict[str, object]:
    """Those of the route of ids: the sampled one first, which is the third where it is ``unlikely``, then the best."""
    others = [{"token_id": id + rank, "logprob": -0.1 * rank if unlikely else -0.5 * (rank + 1)} for rank in (1, 2)]
    own = {"token_id": id, "logprob": -0.5, "rank": 3 if unlikely else 1}
    ranked = [{**other, "rank": rank if unlikely else rank + 1} for rank, other in enumerate(others, 1)]
    return {"content": [{**own, "top_logprobs": [own, *ranked][:count]}]}


def hang_up(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.close()


async def write(reply: web.StreamResponse, event: dict[str, object]) -> None:
    await reply.write(b"data: " + json.dumps(event).encode() + b"\n\n")


@pytest_asyncio.fixture
async def vllm() -> AsyncIterator[Vllm]:
    server = Vllm()
    async with listening(server.app(), handler_cancellation=True) as server.url:
        yield server
