"""A request's body as it comes from a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.datastructures import Headers

from antiphon.api import Limits
from antiphon.errors import RequestError
from antiphon.http.client import DISCARD, read_body
from antiphon.http.errors import ClientGone
from antiphon.http.gate.large import BodyRoom, LargeWork
from antiphon.http.rules import Rules


class Connection:
    """Gives these messages, and then that the client is gone; ``left`` are those that nobody has read."""

    def __init__(self, *messages: Mapping[str, Any]) -> None:
        self.left = [{"type": "http.request", **message} for message in messages]

    async def receive(self) -> dict[str, Any]:
        return self.left.pop(0) if self.left else {"type": "http.disconnect"}


async def read(connection: Connection, most: int = 10, **headers: str) -> bytes:
    sent = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    limits = Limits(max_body=most)
    return await read_body(sent, connection.receive, limits, BodyRoom(LargeWork(Rules(limits))))


async def test_a_body_is_whole_with_the_message_that_promises_no_more() -> None:
    assert await read(Connection({"body": b"ab", "more_body": True}, {"body": b"c", "more_body": False})) == b"abc"
    assert await read(Connection({"body": b"abc"})) == b"abc"
    assert await read(Connection({})) == b""
    with pytest.raises(ClientGone):
        await read(Connection({"body": b"ab", "more_body": True}))


async def test_a_body_is_read_up_to_its_limit() -> None:
    assert await read(Connection({"body": b"x" * 10})) == b"x" * 10
    assert await read(Connection({"body": b"x" * 9, "more_body": True}, {"body": b"x"})) == b"x" * 10
    for chunks in ([b"x" * 11], [b"x" * 10, b"x"]):
        messages = [{"body": chunk, "more_body": chunk is not chunks[-1]} for chunk in chunks]
        with pytest.raises(RequestError) as refused:
            await read(Connection(*messages))
        assert refused.value.code == "body_too_large"


async def test_a_longer_body_is_read_to_its_end_but_not_for_ever() -> None:
    chunk = {"body": b"x" * 10, "more_body": True}
    for count, left in ((DISCARD - 1, 0), (DISCARD + 5, 5)):
        connection = Connection(*[chunk] * count, {"body": b"x"})
        with pytest.raises(RequestError) as refused:
            await read(connection)
        assert refused.value.code == "body_too_large"
        assert len(connection.left) == left


async def test_a_body_that_announces_far_too_much_is_not_read_at_all() -> None:
    for announced, left in ((10 * DISCARD, 0), (10 * DISCARD + 1, 1)):
        connection = Connection({"body": b"x" * 11})
        with pytest.raises(RequestError) as refused:
            await read(connection, content_length=str(announced))
        assert refused.value.code == "body_too_large"
        assert len(connection.left) == left


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate, identity"])
async def test_a_compressed_body_is_not_read(encoding: str) -> None:
    with pytest.raises(RequestError) as refused:
        await read(Connection({"body": b"x"}), content_encoding=encoding)
    assert refused.value.code == "unsupported_media_type"
    assert await read(Connection({"body": b"x"}), content_encoding="Identity") == b"x"
