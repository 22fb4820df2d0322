"""Files in the store: what is on its way counts, what broke off is gone, and a span is read to its last byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.errors import RequestError
from antiphon.store import MemoryStore, SqliteStore, Store
from antiphon.store.clock import ConfirmedClock
from antiphon.store.files import PART, FileLimits, Files, StoredFile
from antiphon.store.leases import Leases

NOW = 1_800_000_000.0


@pytest.fixture(params=["memory", "sqlite"])
async def files(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Files]:
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "files.db")
    limits = FileLimits(quota=20 * PART, files=10, lifetime=3600)
    yield Files(Leases(store), limits, lambda: NOW, ConfirmedClock(lambda: NOW, lambda: 0.0))
    await store.aclose()


async def create(files: Files, pieces: AsyncIterator[bytes], size: int) -> StoredFile:
    return await files.create("ann", pieces, size=size, filename="f", purpose="batch", lifetime=None)


async def test_what_is_on_its_way_is_the_owners_already(files: Files) -> None:
    with files.coming("ann") as first, files.coming("ann") as second:
        first.add(3 * PART)
        second.add(PART)
        assert await files.left("ann") == 16 * PART
        assert await files.left("bob") == 20 * PART
        second.arrived()
        assert await files.left("ann") == 17 * PART
    assert await files.left("ann") == 20 * PART


@pytest.mark.parametrize("whole", [1, 8, 9, 17])
async def test_of_an_upload_that_breaks_off_no_part_stays(files: Files, whole: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(whole):
            yield b"x" * PART
        raise RequestError("the client is gone", code="client_gone")

    with pytest.raises(RequestError):
        await create(files, broken(), 18 * PART)
    for kind in ("file", "file_part", "file_coming"):
        assert await files.store.names(kind, "ann") == []
    assert await files.left("ann") == 20 * PART


async def test_a_span_has_each_of_its_bytes(files: Files) -> None:
    data = bytes(i // 1000 % 251 for i in range(2 * PART)) + b"z"

    async def pieces() -> AsyncIterator[bytes]:
        yield data

    file = await create(files, pieces(), len(data))
    for start in (0, 1, PART - 1, PART, PART + 1, 2 * PART - 1, 2 * PART):
        for length in (1, 2, PART - 1, PART, PART + 1):
            span = await files.span("ann", file, start, min(start + length, len(data)))
            assert span == data[start : start + length], (start, length)
