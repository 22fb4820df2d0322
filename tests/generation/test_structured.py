"""What `make check-structured` does, in small: each format, with a kind of reply that takes a few tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.tokens import gguf_tokenizer
from generation.structured import Check, format_named
from kit.configurations import CONFIGURATIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(smollm2_path: Path) -> AsyncIterator[LlamaCppEngine]:
    settings = LlamaCppSettings(model=smollm2_path, context=512, slots=4, threads=1, cache_mib=64)
    engine = await LlamaCppEngine.start(settings)
    yield engine
    await engine.aclose()


@pytest.mark.parametrize(
    ("format", "name"), [("openchatml", "a pattern"), ("chatml", "a schema"), ("harmony", "a choice")]
)
async def test_a_real_model_at_temperature_1_says_what_is_asked(
    engine: LlamaCppEngine, smollm2_path: Path, format: str, name: str
) -> None:
    tokenizer = gguf_tokenizer(read_gguf_metadata(smollm2_path))
    check = Check(engine, tokenizer, format_named(format, tokenizer.controls))
    assert await check.run(CONFIGURATIONS[name], [1]) == {("finished", ""): 1}
