"""The contract of all stores, checked for each."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.errors import ConflictError
from antiphon.store import MemoryStore, SqliteStore, Store, store_at
from antiphon.store.store import TRIES, until_written
from kit.postgres import Postgres
from kit.store_contract import StoreContract


@pytest.mark.parametrize(("faster", "outcome"), [(TRIES - 1, None), (TRIES, "write_conflict")])
async def test_a_record_is_written_in_the_last_of_its_tries_or_the_conflict_is_told(
    faster: int, outcome: str | None
) -> None:
    async def write() -> None:
        if next(tries) < faster:
            raise ConflictError("another was faster", code="write_conflict")

    tries, code = itertools.count(), None
    try:
        await until_written(write)
    except ConflictError as error:
        code = error.code
    assert (code, next(tries)) == (outcome, TRIES)


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
