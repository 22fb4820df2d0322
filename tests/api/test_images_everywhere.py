"""Images by every wire to every engine: the same bytes, between the same texts, counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anthropic
import ollama
import openai
import pytest
import pytest_asyncio

from antiphon.engines.sglang import SglangEngine
from antiphon.errors import ConfigError, RequestError
from kit.aiohttp_site import listening
from kit.picture_engines import PLAIN, REAL, Far, check_wire, served
from kit.picture_wires import UNSEEN, WIRES, Asked
from kit.pictures import MARK, TOKENIZER, write_projector
from kit.sglang_server import Sglang
from kit.vllm_server import END

pytestmark = pytest.mark.asyncio(loop_scope="module")
REFUSALS = openai.BadRequestError, anthropic.BadRequestError, ollama.ResponseError, RequestError, ConfigError


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PLAIN)
async def plain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Far, Asked]]:
    async with served(PLAIN[request.param](), tmp_path_factory.mktemp("images")) as both:
        yield both


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=REAL)
async def real(
    request: pytest.FixtureRequest, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Far, Asked]]:
    folder = tmp_path_factory.mktemp("images")
    async with served(REAL[request.param](smollm2_path, write_projector(folder / "mmproj.gguf")), folder) as both:
        yield both


@pytest.mark.parametrize("wire", WIRES)
async def test_the_images_of_each_wire_get_to_an_engine_as_they_are_where_they_are_and_are_counted(
    plain: tuple[Far, Asked], wire: str
) -> None:
    await check_wire(*plain, wire)


@pytest.mark.parametrize("wire", ["chat, a data URL", "Responses, a stored turn", "Ollama, chat"])
async def test_images_between_texts_of_an_earlier_turn_and_before_texts_get_to_a_real_llama_cpp(
    real: tuple[Far, Asked], wire: str
) -> None:
    await check_wire(*real, wire)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def blind(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Sglang, Asked]]:
    server = Sglang()

    @asynccontextmanager
    async def sglang() -> AsyncIterator[Far]:
        async with listening(server.app()) as url:
            connecting = SglangEngine.connect(url, tokenizer=TOKENIZER, end_ids=frozenset({END}))
            async with aclosing(await connecting) as engine:
                yield Far(engine, TOKENIZER, MARK)

    async with served(sglang(), tmp_path_factory.mktemp("images")) as (_, asked):
        yield server, asked


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire not in UNSEEN])
async def test_an_engine_that_sees_none_is_sent_none(blind: tuple[Sglang, Asked], wire: str) -> None:
    server, asked = blind
    with pytest.raises(REFUSALS, match=r"cannot be read|reads text"):
        await WIRES[wire][0](asked)
    assert not server.requests
