"""The contract of all engines, held by each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.engines import Engine, ScriptedEngine
from antiphon.engines.llama_cpp import LlamaCppEngine
from engines.conftest import FRANCE
from engines.contract import EngineContract


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
