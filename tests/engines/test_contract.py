"""The contract of all engines, checked for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.engines import Engine, ScriptedEngine
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.engines.llama_server import LlamaServerEngine
from antiphon.tokens import Tokenizer, gguf_tokenizer
from kit.engine_contract import EmbeddingContract, EngineContract
from kit.llama_server import FRANCE


class TestScriptedEngine(EngineContract):
    @pytest.fixture
    def subject(self) -> Engine:
        return ScriptedEngine([3, 1, 4, 15, 9, 2, 6, 5, 35, 8], end_ids=frozenset({8}), context=32)

    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return [1, 2, 3]


class TestScriptedEngineInChunks(TestScriptedEngine):
    @pytest.fixture
    def subject(self) -> Engine:
        return ScriptedEngine([3, 1, 4, 15, 9, 2, 6, 5, 35, 8], end_ids=frozenset({8}), context=32, chunk=3)


@pytest.mark.asyncio(loop_scope="session")
class TestLlamaCppEngine(EngineContract):
    @pytest.fixture
    def subject(self, engine: LlamaCppEngine) -> Engine:
        return engine

    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return FRANCE


@pytest.fixture(scope="session")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    return gguf_tokenizer(read_gguf_metadata(smollm2_path))


@pytest.mark.asyncio(loop_scope="session")
class TestLlamaServerEngine(EngineContract):
    @pytest_asyncio.fixture(loop_scope="session")
    async def subject(self, llama_server: str, tokenizer: Tokenizer) -> AsyncIterator[Engine]:
        subject = await LlamaServerEngine.connect(llama_server, key="sesame", tokenizer=tokenizer)
        yield subject
        await subject.aclose()

    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return FRANCE


class TestScriptedEmbeddings(EmbeddingContract):
    @pytest.fixture
    def encoder(self) -> Engine:
        return ScriptedEngine([], slots=4, embedding=lambda ids: (float(len(ids)), float(sum(ids))))

    @pytest.fixture
    def inputs(self) -> Sequence[Sequence[int]]:
        return (1, 2, 3), (4, 5), (6,)


SENTENCES = (101, 7592, 2088, 102), (101, 2023, 2003, 1037, 3231, 102), (101, 3000, 102)
"""Ids of the sentence encoder's vocabulary."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def started_encoder(settings: LlamaCppSettings, minilm_path: Path) -> AsyncIterator[LlamaCppEngine]:
    encoder = await LlamaCppEngine.start(replace(settings, model=minilm_path, embeddings=True))
    yield encoder
    await encoder.aclose()


@pytest.mark.asyncio(loop_scope="session")
class TestLlamaCppEmbeddings(EmbeddingContract):
    @pytest.fixture
    def encoder(self, started_encoder: LlamaCppEngine) -> Engine:
        return started_encoder

    @pytest.fixture
    def inputs(self) -> Sequence[Sequence[int]]:
        return SENTENCES


@pytest.mark.asyncio(loop_scope="session")
class TestLlamaServerEmbeddings(EmbeddingContract):
    @pytest_asyncio.fixture(loop_scope="session")
    async def encoder(self, llama_embedder: str) -> AsyncIterator[Engine]:
        encoder = await LlamaServerEngine.connect(llama_embedder, key="sesame", embeddings=True)
        yield encoder
        await encoder.aclose()

    @pytest.fixture
    def inputs(self) -> Sequence[Sequence[int]]:
        return SENTENCES
