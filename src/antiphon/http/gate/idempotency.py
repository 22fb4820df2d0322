"""A request that is sent twice under one key is done once."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from antiphon.archive.responses import DAY, Archive
from antiphon.errors import Position, RequestError
from antiphon.store import Key, Record

_SANE = re.compile(r"[!-~]{1,255}")


class Claim(msgspec.Struct, frozen=True):
    """``digest`` of the body that the key came with first, and the response that was made of it."""

    digest: str
    response: str


@dataclass(slots=True)
class Idempotency:
    """The keys of stored responses, each for a day and for its owner alone."""

    archive: Archive
    _making: set[tuple[str, str]] = field(default_factory=set)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def making(self, owner: str, response: str) -> Iterator[None]:
        """While the response is made, its key stays claimed although nothing of it is stored yet."""
        self._making.add((owner, response))
        try:
            yield
        finally:
            self._making.discard((owner, response))

    async def claim(self, owner: str, key: str, body: bytes, response: str) -> str:
        """Claims ``key`` for ``response``; the id of the response that has it, which is another on a second time.

        A response that failed before it was stored gives its key back. Raises `RequestError` for a key that came with
        another body, or that cannot be one.
        """
        if not _SANE.fullmatch(key):
            raise _refused("invalid_value", "idempotency-key has 1 to 255 printable ASCII characters.")
        at, digest = Key("idempotency", owner, key), hashlib.sha256(body).hexdigest()
        async with self._lock:
            claim = await self._known(at)
            if claim is not None and claim.digest != digest:
                raise _refused("idempotency_key_reused", "this idempotency-key came with another body before.")
            if claim is not None and await self._alive(owner, claim.response):
                return claim.response
            now = self.archive.clock()
            await self.archive.store.put(at, Record(msgspec.json.encode(Claim(digest, response)), now, now + DAY))
            return response

    async def _known(self, at: Key) -> Claim | None:
        record = await self.archive.store.get(at)
        if record is None or self.archive.expired(record, DAY):
            return None
        return msgspec.json.decode(record.value, type=Claim)

    async def _alive(self, owner: str, response: str) -> bool:
        return (owner, response) in self._making or await self.archive.has(owner, response)


def _refused(code: str, message: str) -> RequestError:
    return RequestError(message, code=code, position=Position(path="idempotency-key"))
