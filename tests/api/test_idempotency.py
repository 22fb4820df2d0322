"""A key under which a request comes once: who holds it, for how long, and when it is given back."""

from __future__ import annotations

import pytest

from antiphon.archive.responses import Archive
from antiphon.errors import RequestError
from antiphon.http.gate.idempotency import Idempotency
from antiphon.store import MemoryStore


def idempotency() -> Idempotency:
    return Idempotency(Archive(MemoryStore(), lambda: 1000.0))


async def test_a_key_is_held_while_its_response_is_made_and_given_back_when_that_failed() -> None:
    keys = idempotency()
    with keys.making("ann", "first"):
        assert await keys.claim("ann", "k", b"{}", "first") == "first"
        assert await keys.claim("ann", "k", b"{}", "second") == "first"
    assert await keys.claim("ann", "k", b"{}", "third") == "third"


async def test_a_key_is_held_by_the_response_of_its_owner_alone() -> None:
    keys = idempotency()
    with keys.making("ann", "first"), keys.making("bob", "other"):
        assert await keys.claim("ann", "k", b"{}", "first") == "first"
        assert await keys.claim("bob", "k", b"{other}", "other") == "other"
        assert await keys.claim("ann", "k", b"{}", "again") == "first"


async def test_a_key_never_serves_two_bodies() -> None:
    keys = idempotency()
    await keys.claim("ann", "k", b"{}", "failed")
    with pytest.raises(RequestError) as refused:
        await keys.claim("ann", "k", b"{} ", "other")
    assert (refused.value.code, refused.value.param) == ("idempotency_key_reused", "idempotency-key")


@pytest.mark.parametrize("key", ["", "a b", "é", "\x7f", "\n", "x" * 256])
async def test_a_key_is_printable_and_short(key: str) -> None:
    with pytest.raises(RequestError) as refused:
        await idempotency().claim("ann", key, b"{}", "first")
    assert (refused.value.code, refused.value.param) == ("invalid_value", "idempotency-key")


@pytest.mark.parametrize("key", ["!", "~", "x" * 255])
async def test_the_longest_and_the_oddest_key_are_taken(key: str) -> None:
    assert await idempotency().claim("ann", key, b"{}", "first") == "first"
