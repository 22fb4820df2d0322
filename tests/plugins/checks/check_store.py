"""The contract of stores, checked for one of an installed package. Run by `test_plugins`, where that is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.store import Key, Record, Store, store_at
from kit.store_contract import StoreContract


class TestJournal(StoreContract):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = store_at(f"journal:{tmp_path / 'journal'}")
        yield store
        await store.aclose()


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    address, key = f"journal:{tmp_path / 'journal'}", Key("session", "", "s")
    first = store_at(address)
    await first.put(key, Record(b"one", 1.0), b"a")
    await first.aclose()
    second = store_at(address)
    assert await second.get(key) == Record(b"one", 1.0)
    assert await second.entries(key) == [b"a"]
    await second.aclose()
