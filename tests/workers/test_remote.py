"""A worker's view of the supervisor's engine, which may begin another life with another file."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.engines.llama_cpp import LlamaCppSettings
from antiphon.engines.llama_cpp.client import ServedModel
from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary
from antiphon.errors import EngineLostError
from antiphon.tenancy import NOBODY
from antiphon.workers.engines import Made, Opened, Placed, Turn
from antiphon.workers.peer import Grant, Peer
from antiphon.workers.worker import RemoteHost
from kit.vocabularies import sentencepiece
from kit.waiting import until


class Lives:
    """The supervisor's end, whose engine is in its first life until a test sets another."""

    life = "1"

    def __init__(self) -> None:
        self.notes: list[Any] = []

    @property
    def _engine(self) -> Opened:
        return Opened(ServedModel(64, 1, 0, frozenset()), "/nowhere.sock", "key", self.life, None, 0)

    @asynccontextmanager
    async def opened(self, *_: object) -> AsyncGenerator[Grant, None]:
        yield Grant(self._engine)

    @asynccontextmanager
    async def turn(self, *_: object) -> AsyncGenerator[Grant, None]:
        yield Grant(Turn(self._engine, apart=False, seats=[(0, True), (None, True)]), self.notes.append)


@pytest.fixture
async def supervisor() -> AsyncIterator[tuple[Lives, Peer]]:
    """With the worker's end of their socket."""
    lives, (left, right) = Lives(), socket.socketpair()
    one = await Peer.over(left, {"engine": lives.opened, "engine_now": lives.opened, "turn": lives.turn}, {})
    other = await Peer.over(right, {}, {})
    yield lives, other
    one.close()
    other.close()
    await asyncio.gather(one.lost, other.lost)


def write_with_bytes(path: Path, first: str, second: str) -> None:
    """A model file, as another one at its place, whose ids 3 and 4 are these bytes."""
    metadata = sentencepiece()
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    tokens[3:5] = [first, second]
    new = path.with_suffix(".new")
    write_vocabulary(new, metadata)
    new.replace(path)


async def test_in_a_new_life_the_file_is_looked_at_again(tmp_path: Path, supervisor: tuple[Lives, Peer]) -> None:
    """Else ids of bytes would be read by the vocabulary of the file that was there before."""
    (lives, peer), path = supervisor, tmp_path / "model.gguf"
    write_with_bytes(path, "<0x00>", "<0x01>")
    host = await RemoteHost.open(peer, "small", 0, LlamaCppSettings(model=path))
    first = await host.client()
    assert (first._fragments.piece(3), first._fragments.piece(4)) == (b"\0", b"\1")
    write_with_bytes(path, "<0x01>", "<0x00>")
    assert await host.client() is first, "it is the same life still"
    lives.life = "2"
    second = await host.client()
    assert (second._fragments.piece(3), second._fragments.piece(4)) == (b"\1", b"\0")
    assert await host.client() is second
    await host.aclose()
    for ended in (first, second):
        with pytest.raises(EngineLostError):
            await ended.busy_slots()


async def test_what_a_worker_made_of_its_turn_is_noted(tmp_path: Path, supervisor: tuple[Lives, Peer]) -> None:
    """The next prompt that goes on from there is given the slot that holds it."""
    (lives, peer), path = supervisor, tmp_path / "model.gguf"
    write_with_bytes(path, "<0x00>", "<0x01>")
    host = await RemoteHost.open(peer, "small", 0, LlamaCppSettings(model=path))
    async with host.places(NOBODY, 2) as places:
        places.seats[1].placed(3)
        places.seats[0].made.extend([7, 8])
    await until(lambda: len(lives.notes) == 3)
    assert msgspec.convert(lives.notes, list[Placed | Made]) == [Placed(1, 3), Made(0, [7, 8]), Made(1, [])]
    await host.aclose()
