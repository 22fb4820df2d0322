"""What another server needs to go on with a response: the request as it came, and what was decided for it."""

from __future__ import annotations

from datetime import date

import msgspec

from antiphon.conversation import Usage
from antiphon.generation import TurnRequest
from antiphon.http.gate.keys import Scope
from antiphon.http.post import Post
from antiphon.http.recorded import carried
from antiphon.store import pack, unpack
from antiphon.structs import ready
from antiphon.wire.json import encode

from .compaction import Compaction, Summary
from .schema import Response


class StoredCompaction(msgspec.Struct, frozen=True):
    message: bytes
    usage: Usage
    encrypted: str

    def read(self) -> Compaction:
        return Compaction(Summary(unpack(self.message), self.usage), self.encrypted)


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """``body`` is the request as it came in the dialect ``dialect``; ``response`` the response at its beginning.

    ``before`` is how many items of the conversation were there; ``day`` is the prompt's.
    """

    body: bytes
    dialect: str
    headers: dict[str, str]
    scopes: list[Scope]
    stream: bool
    response: bytes
    day: date
    call_key: str
    before: int
    compaction: StoredCompaction | None = None

    def began(self) -> Response:
        return msgspec.json.decode(self.response, type=ready(Response))


def head_of_run(
    post: Post, response: Response, request: TurnRequest, *, before: int, compaction: Compaction | None
) -> RunHead:
    """``request`` is that of the first turn, ``before`` how many items of the conversation were there."""
    exchange, today = post.exchange, request.conversation.settings.current_date
    assert today is not None, "every prompt of a response has its day"
    return RunHead(
        body=post.body,
        dialect=post.context.dialect.name,
        headers=carried(exchange.headers),
        scopes=sorted(exchange.principal.scopes),
        stream=exchange.stream,
        response=encode(response),
        day=today,
        call_key=request.call_key,
        before=before,
        compaction=None if compaction is None else _stored(compaction),
    )


def _stored(compaction: Compaction) -> StoredCompaction:
    return StoredCompaction(pack(compaction.summary.message), compaction.summary.usage, compaction.encrypted)
