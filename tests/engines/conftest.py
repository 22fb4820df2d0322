"""One embedded engine for all tests of the room."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings

FRANCE = (1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198)
"""SmolLM2's ids of: <|im_start|>user⏎What is the capital of France?<|im_end|>⏎<|im_start|>assistant⏎"""


@pytest.fixture(scope="session")
def settings(smollm2_path: Path) -> LlamaCppSettings:
    pytest.importorskip("xllamacpp")
    return LlamaCppSettings(model=smollm2_path, context=512, slots=4, threads=1, cache_mib=64)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine(settings: LlamaCppSettings) -> AsyncIterator[LlamaCppEngine]:
    engine = await LlamaCppEngine.start(settings)
    yield engine
    await engine.aclose()


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    if not named:
        pytest.skip("the default model is not here: set ANTIPHON_TEST_MODEL to its file")
    return Path(named)
