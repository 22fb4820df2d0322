"""Cross-encoders: the scores that the model's own arithmetic gives, from each engine; and files that cannot rank."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from antiphon.catalog.files.text import gguf_text
from antiphon.engines import Engine, EngineInfo, EngineProxy, Ranking, ScriptedEngine
from antiphon.engines.gguf_file import read_gguf_metadata, read_gguf_tensors
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings, LlamaServerEngine, Pooling
from antiphon.engines.llama_cpp.client import sigmoid
from antiphon.engines.vllm import VllmEngine
from antiphon.errors import ContextError, ModelError, RequestError, UnsupportedError
from antiphon.tenancy import Tenant
from antiphon.tokens import Control, Tokenizer
from kit.cross_encoder import CONTEXT, FRAME, CrossEncoder, write_cross_encoder
from kit.llama_server import serving

pytestmark = pytest.mark.asyncio(loop_scope="module")
ANN, BOB = Tenant(owner="ann"), Tenant(owner="bob")
QUERY = "what is the cat?"
DOCUMENTS = ("the cat", "the sun rises in the east.", "invoice paid", "", "a [SEP] b [CLS]", "machine learning " * 9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rankers")


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    return folder / "ranker.gguf"


@pytest.fixture(scope="module")
def reference(path: Path) -> CrossEncoder:
    return write_cross_encoder(path)


@pytest.fixture(scope="module")
def tokenizer(path: Path, reference: CrossEncoder) -> Tokenizer:
    return gguf_text(read_gguf_metadata(path)).tokenizer


@pytest.fixture(scope="module")
def exact(reference: CrossEncoder, tokenizer: Tokenizer) -> Ranking:
    """What must come, and how many tokens it takes."""
    query = tokenizer.encode(QUERY)
    documents = [tokenizer.encode(one) for one in DOCUMENTS]
    tokens = sum(FRAME + len(query) + len(one) for one in documents)
    return Ranking(tuple(reference.score(query, one) for one in documents), tokens)


def settings(path: Path) -> LlamaCppSettings:
    return LlamaCppSettings(model=path, context=CONTEXT, slots=2, threads=1, embeddings=True, pooling=Pooling.RANK)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(path: Path, reference: CrossEncoder) -> AsyncIterator[LlamaCppEngine]:
    engine = await LlamaCppEngine.start(settings(path))
    yield engine
    await engine.aclose()


@pytest.fixture(scope="module")
def server(path: Path, reference: CrossEncoder) -> Iterator[str]:
    yield from serving(str(path), "ranks")


async def test_the_embedded_engine_gives_the_scores_that_the_weights_give(
    embedded: LlamaCppEngine, exact: Ranking
) -> None:
    found = await embedded.rank(QUERY, DOCUMENTS, tenant=ANN)
    assert found.scores == pytest.approx(exact.scores, abs=2e-3)
    assert found.tokens == exact.tokens
    assert len(set(exact.scores)) == len(DOCUMENTS), "the model tells them apart"


async def test_a_server_gives_the_same_scores(server: str, exact: Ranking, tokenizer: Tokenizer) -> None:
    engine = await LlamaServerEngine.connect(server, key="sesame", tokenizer=tokenizer, ranks=True)
    found = await engine.rank(QUERY, DOCUMENTS, tenant=ANN)
    assert found.scores == pytest.approx(exact.scores, abs=2e-3)
    assert found.tokens == exact.tokens
    assert (engine.info.ranks, engine.info.grammar, engine.info.scores) == (True, False, False)
    await engine.aclose()


async def test_whoever_asks_and_whatever_is_beside_it_a_pair_has_one_score(embedded: LlamaCppEngine) -> None:
    alone = {one: (await embedded.rank(QUERY, [one], tenant=BOB)).scores[0] for one in DOCUMENTS}
    many = await asyncio.gather(*(embedded.rank(QUERY, DOCUMENTS, tenant=Tenant(owner=str(i))) for i in range(4)))
    for found in many:
        assert found.scores == pytest.approx([alone[one] for one in DOCUMENTS], abs=1e-3)
    assert await embedded.rank(QUERY, [], tenant=ANN) == Ranking((), 0)


async def test_an_engine_that_ranks_does_nothing_else(embedded: LlamaCppEngine) -> None:
    assert (embedded.info.ranks, embedded.info.embeddings, embedded.info.scores) == (True, False, False)
    with pytest.raises(UnsupportedError):
        await embedded.embed([[1, 2]])
    with pytest.raises(UnsupportedError):
        await embedded.score([1, 2])


async def test_a_pair_that_is_too_long_is_an_error_and_the_engine_goes_on(embedded: LlamaCppEngine) -> None:
    with pytest.raises(ContextError, match=str(CONTEXT)):
        await embedded.rank(QUERY, ["cat " * CONTEXT])
    assert len((await embedded.rank(QUERY, ["the cat"])).scores) == 1


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"head": False}, "no head"),
        ({"labels": 3}, "3 classes"),
        ({"template": "<|im_start|>{query}<|im_end|>{document}"}, "template"),
    ],
)
async def test_a_file_that_cannot_rank_is_refused_before_it_is_loaded(
    tmp_path: Path, made: dict[str, Any], reason: str
) -> None:
    """llama.cpp would give a number all the same."""
    path = tmp_path / "other.gguf"
    write_cross_encoder(path, **made)
    with pytest.raises(ModelError, match=reason) as caught:
        await LlamaCppEngine.start(settings(path))
    assert caught.value.code == "not_a_ranker"


async def test_a_server_that_was_not_started_for_it_is_refused(llama_embedder: str) -> None:
    with pytest.raises(ModelError) as caught:
        await LlamaServerEngine.connect(llama_embedder, key="sesame", ranks=True)
    assert caught.value.code == "not_a_ranker"
    assert "--reranking" in (caught.value.hint or "")


async def test_a_file_that_is_cut_in_its_list_of_tensors_says_so(
    path: Path, reference: CrossEncoder, tmp_path: Path
) -> None:
    whole = path.read_bytes()
    assert {"cls.weight", "cls.output.bias", "token_embd.weight"} <= set(read_gguf_tensors(path))
    end = whole.index(b"cls.output.bias")
    for size in (end + 4, end + 20, end - 3):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(whole[:size])
        with pytest.raises(ModelError) as caught:
            read_gguf_tensors(cut)
        assert caught.value.code == "gguf_truncated"


@pytest.mark.parametrize("logit", [0.0, 1.0, -1.0, 700.0, -700.0, 1e300, -1e300])
async def test_a_logit_however_far_out_is_a_number_from_0_to_1(logit: float) -> None:
    found = sigmoid(logit)
    assert 0.0 <= found <= 1.0
    assert found + sigmoid(-logit) == pytest.approx(1.0)
    if abs(logit) < 700:
        assert found == pytest.approx(1 / (1 + math.exp(-logit)))


class Behind(EngineProxy):
    """Passes everything on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Engine]:
        yield self._engine

    async def aclose(self) -> None:
        await self._engine.aclose()


async def test_an_engine_before_another_ranks_as_that_one_does() -> None:
    ranker = ScriptedEngine([], slots=2, scoring=lambda query, document: len(document) / 10)
    assert await Behind(ranker).rank("q", ["a", "bc", "def"]) == Ranking((0.1, 0.2, 0.3), 9)
    with pytest.raises(UnsupportedError):
        await Behind(ScriptedEngine([])).rank("q", ["a"])


class ScoringServer:
    """vLLM's route for scores, which gives each second text the length of the pair in hundredths."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.url = ""

    async def score(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        rows = [
            {"index": i, "object": "score", "score": (len(body["text_1"]) + len(text)) / 100}
            for i, text in enumerate(body["text_2"])
        ]
        return web.json_response({"data": rows[::-1], "usage": {"prompt_tokens": 42, "total_tokens": 42}})

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "ranker", "max_model_len": CONTEXT}]})


@pytest_asyncio.fixture(loop_scope="module")
async def scoring() -> AsyncIterator[ScoringServer]:
    server, app = ScoringServer(), web.Application()
    app.add_routes([web.post("/score", server.score), web.get("/v1/models", server.models)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


async def test_vllm_s_scores_come_as_it_activates_them_in_the_documents_order(
    scoring: ScoringServer, tokenizer: Tokenizer
) -> None:
    engine = await VllmEngine.connect(scoring.url, tokenizer=tokenizer, end_ids=frozenset(), ranks=True)
    assert await engine.rank("abc", ["d", "ef"]) == Ranking((0.04, 0.05), 42)
    assert scoring.bodies == [{"model": "ranker", "text_1": "abc", "text_2": ["d", "ef"]}]
    assert (engine.info.ranks, engine.info.scores, engine.info.grammar) == (True, False, False)
    await engine.aclose()


async def test_vllm_finds_controls_in_texts_so_a_text_that_spells_one_is_not_sent(
    scoring: ScoringServer, tokenizer: Tokenizer
) -> None:
    assert Control("[SEP]") in tokenizer.controls
    engine = await VllmEngine.connect(scoring.url, tokenizer=tokenizer, end_ids=frozenset(), ranks=True)
    for query, document in (("a [SEP] b", "c"), ("a", "c[CLS]")):
        with pytest.raises(RequestError, match="control"):
            await engine.rank(query, [document])
    assert scoring.bodies == []
    await engine.aclose()
