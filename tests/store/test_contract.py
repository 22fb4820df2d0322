"""The contract of all stores, checked for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.store import MemoryStore, SqliteStore, Store, store_at
from kit.postgres import Postgres
from kit.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def subject(self) -> Store:
        return MemoryStore()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(tmp_path / "sessions.db")
        yield store
        await store.aclose()


class TestPostgresStore(StoreContract):
    @pytest.fixture(params=["direct", "pgbouncer"])
    async def subject(self, postgres: Postgres, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
        with postgres.database() as name:
            store = store_at(postgres.address(name) if request.param == "direct" else postgres.bounced(name))
            yield store
            await store.aclose()
