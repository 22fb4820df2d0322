"""A request that is sent twice under one key is done once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from antiphon.errors import ConflictError, Position, RequestError
from antiphon.store import Key, Lease, Leases, Record
from antiphon.store.archive import DAY, Archive
from antiphon.store.leases import Exclusive, exclusive
from antiphon.structs import ready

_SANE = re.compile(r"[!-~]{1,255}")


class Claim(msgspec.Struct, frozen=True):
    """``digest`` of the body that the key came with first, and the response that was made of it."""

    digest: str
    response: str


@dataclass(slots=True)
class Idempotency:
    """The keys of stored responses, each for a day and for its owner alone, at whichever server a request comes in."""

    archive: Archive
    leases: Leases

    @asynccontextmanager
    async def claimed(
        self, owner: str, key: str | None, body: bytes, response: str
    ) -> AsyncIterator[tuple[str, Exclusive]]:
        """Claims ``key`` for ``response``, which is made meanwhile; without a key there is nothing to claim.

        Gives the id of the response that has the key, which is another on a second time, and what lets ``response`` be
        stored. One that was not stored by the end, or whose server died, gives its key back. Raises `RequestError` for
        a key that came with another body, or that cannot be one, and `ConflictError` (``idempotency_in_progress``).
        """
        if key is None:
            yield response, Exclusive()
            return
        if not _SANE.fullmatch(key):
            raise _refused("invalid_value", "idempotency-key has 1 to 255 printable ASCII characters.")
        at, digest = Key("idempotency", owner, key), hashlib.sha256(body).hexdigest()
        async with exclusive(self.leases, at) as claimed:
            yield await self._claim(at, Claim(digest, response), claimed.lease), claimed

    async def _claim(self, at: Key, claim: Claim, lease: Lease | None) -> str:
        known = await self._known(at)
        if known is not None and known.digest != claim.digest:
            raise _refused("idempotency_key_reused", "this idempotency-key came with another body before.")
        if known is not None:
            stored = Key("response", at.owner, known.response)
            if lease is None or await self.archive.record(stored) is not None:
                return known.response
        if lease is None:
            raise in_progress()
        now = self.archive.clock()
        await self.archive.store.put(at, Record(msgspec.json.encode(claim), now, now + DAY), lease=lease)
        return claim.response

    async def _known(self, at: Key) -> Claim | None:
        record = await self.archive.store.get(at)
        if record is None or self.archive.expired(record, DAY):
            return None
        return msgspec.json.decode(record.value, type=ready(Claim))


def in_progress() -> ConflictError:
    """The response that has the key is not there yet."""
    return ConflictError(
        "The first request with this idempotency-key is still being answered.", code="idempotency_in_progress"
    )


def _refused(code: str, message: str) -> RequestError:
    return RequestError(message, code=code, position=Position(path="idempotency-key"))
