"""The contract of engines, checked for one of an installed package. Run by `test_plugins`, where that is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from antiphon.engines import Engine, ModelSpec, engine_kind
from antiphon.tokens import ByteTokenizer
from kit.engine_contract import EngineContract


class TestParrot(EngineContract):
    @pytest.fixture
    async def subject(self) -> AsyncIterator[Engine]:
        engine = await engine_kind("parrot")().open(ModelSpec(name="bird", tokenizer=ByteTokenizer(), context=64))
        yield engine
        await engine.aclose()

    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return [1, 2, 3]
