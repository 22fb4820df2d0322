"""What `make check-structured` does, in small: the replies that take a few tokens, two seeds, each format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.tokens import gguf_tokenizer
from generation.structured import ENDS, Check, format_named
from kit.configurations import CONFIGURATIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHORT = ("a schema", "a choice")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(smollm2_path: Path) -> AsyncIterator[LlamaCppEngine]:
    settings = LlamaCppSettings(model=smollm2_path, context=512, slots=4, threads=1, cache_mib=64)
    engine = await LlamaCppEngine.start(settings)
    yield engine
    await engine.aclose()


@pytest.mark.parametrize("format", ["openchatml", "chatml", "harmony"])
async def test_a_real_model_at_temperature_1_says_what_is_asked(
    engine: LlamaCppEngine, smollm2_path: Path, format: str
) -> None:
    tokenizer = gguf_tokenizer(read_gguf_metadata(smollm2_path))
    check = Check(engine, tokenizer, format_named(format, tokenizer.controls))
    finished = 0
    for name in SHORT:
        ended = await check.run(CONFIGURATIONS[name], range(2))
        assert {kind for kind, _ in ended} <= set(ENDS), name
        finished += ended["finished", ""]
    assert finished
