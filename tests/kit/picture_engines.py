"""Engines that see, each with what came to its far end; and servers of ours in front of them."""

from __future__ import annotations

import ipaddress
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Engine, PlacedImage, Sampling, Step
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings, LlamaServerEngine
from antiphon.engines.vllm import VllmEngine
from antiphon.formats.template import jinja_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.generation.images import checked
from antiphon.tokens import Tokenizer, decode, gguf_tokenizer
from antiphon.tools.browser import Web
from kit.aiohttp_site import listening
from kit.api import END, sampled, serving
from kit.engine_contract import GREEDY, steps_of
from kit.llama_server import serving as llama_serving
from kit.picture_wires import WIRES, Asked
from kit.pictures import BEGIN, CLOSE, EVERYWHERE, MARK, PAD, PATCHES, TOKENIZER, picture, seeing_engine
from kit.vllm_server import END as SAID_LAST
from kit.vllm_server import Vllm
from kit.waiting import until_idle

IMAGES = {"red.png": (picture(), "image/png"), "blue.webp": (picture("WEBP", color=(0, 0, 255)), "image/webp")}
"""One that goes on as it is, and one that engines read in several ways, which becomes a PNG."""
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
FILE_SEP = "<file_sep>"
"""A control that the small model's prompts have no other use for."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The last one that an engine had: its texts around the images, their files, and how many tokens it is."""

    texts: Sequence[str]
    files: Sequence[bytes]
    tokens: int


@dataclass(frozen=True, slots=True)
class Far:
    """An engine, what its prompts are written with, and what came to its far end; None where nothing is to come."""

    engine: Engine
    tokenizer: Tokenizer
    mark: str
    last: Callable[[], Awaitable[Prompt]] | None = None

    @property
    def model(self) -> Model:
        format = jinja_format(EVERYWHERE.replace(MARK, self.mark), self.tokenizer.controls, replies=QWEN)
        return Model(name="m", engine=self.engine, tokenizer=self.tokenizer, format=format)


def around(tokenizer: Tokenizer, prompt: Sequence[int], images: Sequence[tuple[int, int]]) -> list[str]:
    """The texts before, between and behind the places of images."""
    edges = [0, *(edge for image in images for edge in image), len(prompt)]
    return [decode(tokenizer, prompt[at:to]) for at, to in zip(edges[::2], edges[1::2], strict=True)]


@asynccontextmanager
async def scripted() -> AsyncIterator[Far]:
    engine = seeing_engine(sampled(TOKENIZER, ("Red.", END)))

    async def last() -> Prompt:
        (prompt, *_), images = engine.requests[-1], engine.images[-1]
        texts = around(TOKENIZER, prompt, [(image.start, image.stop) for image in images])
        return Prompt(texts, [image.data for image in images], len(prompt))

    yield Far(engine, TOKENIZER, MARK, last)


class Watched(LlamaCppEngine):
    """The embedded engine, and what it was asked for: nobody else sees what goes to its process."""

    asked: tuple[Sequence[int], Sequence[PlacedImage]] = ((), ())

    def generate(self, prompt: Sequence[int], sampling: Sampling, **options: Any) -> AsyncGenerator[Step, None]:
        self.asked = prompt, options.get("images", ())
        return super().generate(prompt, sampling, **options)


@asynccontextmanager
async def embedded(model: Path, projector: Path) -> AsyncIterator[Far]:
    tokenizer = gguf_tokenizer(read_gguf_metadata(model))
    settings = LlamaCppSettings(
        model=model, projector=projector, threads=1, slots=1, context=512, cache_mib=0, share_cache=True
    )
    one = replace(GREEDY, max_tokens=1)
    async with aclosing(await Watched.start(settings)) as engine:

        async def last() -> Prompt:
            """What is asked for again is in the engine's cache to the last id but one, so it was there: these images
            at these places. Something else is asked for then, so that the next finds nothing."""
            prompt, images = engine.asked
            tokens = len(prompt) - sum(image.stop - image.start for image in images) + PATCHES * len(images)
            await until_idle(engine)
            step, *_ = await steps_of(engine, prompt, one, images=images)
            assert step.cached_tokens == tokens - 1
            await until_idle(engine)
            await steps_of(engine, [*prompt[:9], *prompt[:9]], one)
            await until_idle(engine)
            texts = around(tokenizer, prompt, [(image.start, image.stop) for image in images])
            return Prompt(texts, [image.data for image in images], tokens)

        yield Far(engine, tokenizer, FILE_SEP, last)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A server before another's that sends on what it gets: its ``url``, a client of the other, and the ``bodies``."""

    url: str
    client: aiohttp.ClientSession
    bodies: dict[str, Any]
    """The last of each path."""

    async def json(self, path: str, body: object = None) -> Any:
        async with self.client.request("GET" if body is None else "POST", path, json=body) as got:
            return await got.json()


@asynccontextmanager
async def recorded(far: str, **headers: str) -> AsyncIterator[Recorded]:
    async with aiohttp.ClientSession(far, headers=headers) as client:
        bodies: dict[str, Any] = {}

        async def send_on(request: web.Request) -> web.Response:
            body = bodies[request.path] = await request.json() if request.can_read_body else None
            async with client.request(request.method, request.path_qs, json=body) as got:
                return web.Response(body=await got.read(), status=got.status, content_type=got.content_type)

        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", send_on)
        async with listening(application) as url:
            yield Recorded(url, client, bodies)


@asynccontextmanager
async def llama_server(model: Path, projector: Path) -> AsyncIterator[Far]:
    """llama.cpp's own server with a projector, in another process."""
    tokenizer = gguf_tokenizer(read_gguf_metadata(model))
    with contextmanager(llama_serving)(str(model), "sees", str(projector)) as url:
        async with recorded(url, Authorization="Bearer sesame") as sent:

            async def last() -> Prompt:
                prompt, mark = sent.bodies["/completion"]["prompt"], (await sent.json("/props"))["media_marker"]
                texts, files = prompt["prompt_string"].split(mark), prompt["multimodal_data"]
                read = [await sent.json("/tokenize", {"content": one, "parse_special": True}) for one in texts]
                tokens = PATCHES * len(files) + sum(len(one["tokens"]) for one in read)
                return Prompt(texts, [b64decode(file) for file in files], tokens)

            async with aclosing(await LlamaServerEngine.connect(sent.url, tokenizer=tokenizer)) as engine:
                yield Far(engine, tokenizer, FILE_SEP, last)


@asynccontextmanager
async def vllm(url: str, tokenizer: Tokenizer, mark: str, end: int, frame: int = 0) -> AsyncIterator[Far]:
    """A vLLM with its route of ids. ``frame``: ids that its mark has on both sides of those that stand for an image."""
    async with recorded(url) as sent:

        async def last() -> Prompt:
            (shown,) = sent.bodies["/v1/chat/completions/render"]["messages"]
            files = [b64decode(part["image_url"]["url"].partition(",")[2]) for part in shown["content"]]
            body = sent.bodies["/inference/v1/generate"]
            spans = body["features"]["mm_placeholders"]["image"]
            places = [(span["offset"] - frame, span["offset"] + span["length"] + frame) for span in spans]
            return Prompt(around(tokenizer, body["token_ids"], places), files, len(body["token_ids"]))

        connecting = VllmEngine.connect(sent.url, tokenizer=tokenizer, end_ids=frozenset({end}))
        async with aclosing(await connecting) as engine:
            yield Far(engine, tokenizer, mark, last)


@asynccontextmanager
async def vllm_wire() -> AsyncIterator[Far]:
    """The server of our tests that speaks vLLM's wire."""
    server = Vllm()
    server.native, server.pads, server.context = True, 7, 2048
    begin, pad, close = (TOKENIZER.controls[control] for control in (BEGIN, PAD, CLOSE))
    server.mark = begin, pad, close
    async with listening(server.app()) as url, vllm(url, TOKENIZER, MARK, SAID_LAST, frame=1) as far:
        yield far


PLAIN = {"scripted": scripted, "vLLM": vllm_wire}
REAL = {"embedded": embedded, "llama.cpp server": llama_server}
"""Engines that see, those with a model's weights apart; a real vLLM is asked by `make check-vllm`."""


@asynccontextmanager
async def served(opening: AbstractAsyncContextManager[Far], folder: Path) -> AsyncIterator[tuple[Far, Asked]]:
    """A server with that engine, and the images as files in the folder and on a site that it may fetch from."""
    files: dict[Path, str] = {}
    for name, (data, kind) in IMAGES.items():
        (folder / name).write_bytes(data)
        files[folder / name] = kind

    async def page(request: web.Request) -> web.Response:
        data, kind = IMAGES[request.match_info["name"]]
        return web.Response(body=data, content_type=kind)

    site = web.Application()
    site.router.add_get("/images/{name}", page)
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(opening)
        url = await stack.enter_async_context(listening(site))
        fetcher = await stack.enter_async_context(aclosing(Web(allowed=LOOPBACK)))
        model = far.model
        port = await stack.enter_async_context(serving(create_app(StaticCatalog({"m": model}), web=fetcher)))
        urls = [f"{url}/images/{name}" for name in IMAGES]
        yield far, Asked(base=f"http://127.0.0.1:{port}", images=files, urls=urls, model=model)


async def check_wire(far: Far, asked: Asked, wire: str) -> int:
    """Asks by the wire, and compares what came to the engine: bytes, places and number. The number of tokens."""
    ask, (before, between, behind) = WIRES[wire]
    count = await ask(asked)
    assert far.last is not None
    prompt = await far.last()
    assert [*map(digest, prompt.files)] == [digest(checked(data) or data) for data, _ in IMAGES.values()]
    first, second, third = prompt.texts
    assert (first.endswith(before), second, third.startswith(f"{behind}<|im_end|>")) == (True, between, True), prompt
    assert count == prompt.tokens
    return count


def digest(file: bytes) -> str:
    return sha256(file).hexdigest()
