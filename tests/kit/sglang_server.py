"""A small server that speaks SGLang's own wire as its source has it, and the fixture that runs it on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest_asyncio
from aiohttp import web

from kit.aiohttp_site import listening
from kit.vllm_server import CONTEXT, END, SAYS, hang_up

RESERVED = 2


class Sglang:
    """Says `SAYS`. ``requests`` are the bodies that came, ``aborted`` the ids of requests that were to stop.

    ``incremental``: each event has the new ids alone; else all ids so far. ``chunk``: ids of one event.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.aborted: list[str] = []
        self.facts: dict[str, object] = {"enable_deterministic_inference": True, "max_total_num_tokens": 4096}
        self.facts_path = "/server_info"
        self.incremental = False
        self.chunk = 1
        self.breaks_after: int | None = None
        self.waits_after: int | None = None
        self.finish: dict[str, object] | None = None
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/models", self.models)
        for path in ("/server_info", "/get_server_info"):
            app.router.add_get(path, self.server_info)
        app.router.add_post("/generate", self.generate)
        app.router.add_post("/abort_request", self.abort)
        app.router.add_post("/tokenize", self.tokenize)
        return app

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "toy", "max_model_len": CONTEXT}]})

    async def server_info(self, request: web.Request) -> web.Response:
        return web.json_response(self.facts) if request.path == self.facts_path else web.Response(status=404)

    async def abort(self, request: web.Request) -> web.Response:
        self.aborted.append((await request.json())["rid"])
        return web.Response()

    async def tokenize(self, request: web.Request) -> web.Response:
        ids = list((await request.json())["prompt"].encode())
        return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": CONTEXT})

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        if body["input_ids"] == [13]:
            return web.json_response({"error": {"message": "no", "type": "BadRequest", "code": 400}}, status=400)
        if not body["sampling_params"]["max_new_tokens"]:
            return web.json_response({"text": "", "output_ids": [], "meta_info": self._scored(body)})
        if not body["stream"]:
            return await self._whole(request, body)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        async for event in self._events(body):
            await reply.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await reply.write(b"data: [DONE]\n\n")
        return reply

    async def _whole(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        """What the last event of its stream would say, if that had all ids."""
        if self.breaks_after is not None:
            hang_up(request)
        if self.waits_after is not None:
            await asyncio.Event().wait()
        ids, finish = reply_to(body["sampling_params"])
        return web.json_response(self._event(body, ids, finish, new=0))

    def _scored(self, body: dict[str, Any]) -> dict[str, object]:
        ids, count = body["input_ids"], body["top_logprobs_num"]
        entries = [[None, ids[0], None], *([-0.5, id, None] for id in ids[1:])]
        tops = [None, *(alternatives(id, count) for id in ids[1:])]
        return {"input_token_logprobs": entries, "input_top_logprobs": tops if count else []}

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[dict[str, object]]:
        if self.finish is not None:
            meta = {"id": body["rid"], "completion_tokens": 0, "finish_reason": self.finish}
            yield {"text": "", "output_ids": [], "meta_info": meta}
            return
        ids, finish = reply_to(body["sampling_params"])
        for end in [*range(self.chunk, len(ids), self.chunk), len(ids)]:
            if self.breaks_after is not None and end >= self.breaks_after:
                raise ConnectionResetError
            if self.waits_after is not None and end > self.waits_after:
                await asyncio.Event().wait()
            yield self._event(body, ids[:end], finish if end == len(ids) else None)
            await asyncio.sleep(0)

    def _event(
        self, body: dict[str, Any], ids: Sequence[int], finish: dict[str, object] | None, new: int | None = None
    ) -> dict[str, object]:
        if new is None:
            new = (len(ids) - 1) // self.chunk * self.chunk if self.incremental else 0
        meta: dict[str, object] = {
            "id": body["rid"], "finish_reason": finish, "completion_tokens": len(ids), "cached_tokens": 2,
        }  # fmt: skip
        if body.get("return_logprob"):
            meta["output_token_logprobs"] = [[-0.5, id, None] for id in ids[new:]]
            if count := body["top_logprobs_num"]:
                meta["output_top_logprobs"] = [alternatives(id, count) for id in ids[new:]]
        return {"text": "", "output_ids": list(ids[new:]), "meta_info": meta}


def reply_to(params: dict[str, Any]) -> tuple[list[int], dict[str, object]]:
    """The ids of a reply, and its end as the server spells it."""
    for count, id in enumerate(SAYS[: params["max_new_tokens"]], 1):
        if id in (END, *params["stop_token_ids"]):
            return SAYS[:count], {"type": "stop", "matched": id}
    return SAYS[: params["max_new_tokens"]], {"type": "length", "length": params["max_new_tokens"]}


def alternatives(id: int, count: int) -> list[list[object]]:
    return [[-0.5 * (i + 1), id + i, None] for i in range(count)]


@pytest_asyncio.fixture
async def sglang() -> AsyncIterator[Sglang]:
    server = Sglang()
    async with listening(server.app(), handler_cancellation=True) as server.url:
        yield server
