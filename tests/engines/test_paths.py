"""A server's root may have a path: every kind of engine on a server elsewhere takes one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from antiphon.engines import EngineSettings, ModelSpec, engine_kind
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.grpc import Grpc
from antiphon.engines.http import ServerSettings
from antiphon.engines.llama_server import LlamaServer
from antiphon.engines.registry import built_in_kinds
from antiphon.engines.sglang import Sglang as SglangSettings
from antiphon.engines.vllm import Vllm as VllmSettings
from antiphon.tokens import ByteTokenizer, gguf_tokenizer
from kit.engine_contract import GREEDY, ids_of, steps_of
from kit.grpc_server import SERVICERS, Script, grpc_server
from kit.llama_server import FRANCE, serving
from kit.sglang_server import Sglang
from kit.vllm_server import END, SAYS, Vllm

PATH = "/engines/a"
TESTED = {"grpc", "llama_server", "sglang", "vllm"}


def test_every_kind_on_a_server_is_tried_here() -> None:
    assert {name for name in built_in_kinds() if issubclass(engine_kind(name), ServerSettings)} == TESTED


@asynccontextmanager
async def below(app: web.Application) -> AsyncIterator[str]:
    """The address of ``app`` below `PATH`; nothing else is there."""
    root = web.Application()
    root.add_subapp(PATH, app)
    runner = web.AppRunner(root)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


async def said(settings: EngineSettings) -> list[int]:
    model = ModelSpec(name="far", tokenizer=ByteTokenizer(), end_ids=frozenset({END}), share_cache=True)
    engine = await settings.open(model)
    ids = ids_of(await steps_of(engine, [1, 2], GREEDY))
    await engine.aclose()
    return ids


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("native", [False, True])
async def test_of_vllm(native: bool, end: str) -> None:
    server = Vllm()
    server.native = native
    async with below(server.app()) as url:
        assert await said(VllmSettings(url=url + end)) == SAYS[:8]


@pytest.mark.parametrize("end", ["", "/"])
async def test_of_sglang(end: str) -> None:
    async with below(Sglang().app()) as url:
        assert await said(SglangSettings(url=url + end)) == SAYS[:8]


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("servicer", SERVICERS, ids=lambda servicer: servicer.name)
async def test_of_each_grpc_server(servicer: type, end: str) -> None:
    async with grpc_server(servicer(Script()), path=PATH) as url:
        assert await said(Grpc(url=url + end)) == SAYS[:8]


@pytest.fixture(scope="module")
def llama_below(smollm2_path: Path) -> Iterator[str]:
    yield from serving(str(smollm2_path), prefix=PATH)


@pytest.mark.parametrize("end", ["", "/"])
async def test_of_a_llama_server(llama_below: str, smollm2_path: Path, tmp_path: Path, end: str) -> None:
    key = tmp_path / "key"
    key.write_text("sesame")
    tokenizer = gguf_tokenizer(read_gguf_metadata(smollm2_path))
    settings = LlamaServer(url=llama_below + PATH + end, key_file=str(key), grammar=False)
    engine = await settings.open(ModelSpec(name="far", tokenizer=tokenizer))
    assert len(ids_of(await steps_of(engine, FRANCE, GREEDY))) == 8
    assert await engine.tokenize("a") == tokenizer.encode("a")
    await engine.aclose()
