"""One embedded engine for all tests of the room, and the servers that its tests speak to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from kit.llama_server import llama_embedder, llama_server
from kit.sglang_server import sglang
from kit.vllm_server import vllm
from kit.waiting import until_idle

__all__ = ["engine", "llama_embedder", "llama_server", "settings", "sglang", "started_engine", "vllm"]


@pytest.fixture(scope="session")
def settings(smollm2_path: Path) -> LlamaCppSettings:
    return LlamaCppSettings(model=smollm2_path, context=256, slots=4, threads=1, cache_mib=64)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def started_engine(settings: LlamaCppSettings) -> AsyncIterator[LlamaCppEngine]:
    engine = await LlamaCppEngine.start(settings)
    yield engine
    await engine.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def engine(started_engine: LlamaCppEngine) -> LlamaCppEngine:
    """The engine at rest: a slot is given back shortly after the end of the reply that the test before has read."""
    await until_idle(started_engine)
    return started_engine
