"""POST /v1/convert: a conversation from one form to another, what is lost on the way, and what is wrong with it.

GET /v1/convert: the forms.
"""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.api.native.schema import ConversionForms, ConvertRequest
from antiphon.catalog.known_formats import known_formats
from antiphon.http.context import Context
from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from . import SOURCES, TARGETS
from .converted import CONVERT

MOST_CHARACTERS = 2 * 2**20
"""Of an input; half a second of work."""


class Forms:
    """The names of all forms; templates take long to import, the first time."""

    def __init__(self, context: Context) -> None:
        """They are the same in every context."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await asyncio.to_thread(_forms)
        await Response(encode(found), media_type="application/json")(scope, receive, send)


def _forms() -> ConversionForms:
    templates = [name for name in known_formats().names if name not in TARGETS]
    return ConversionForms(source=list(SOURCES), to=list(TARGETS), templates=sorted(templates))


class Convert(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(ConvertRequest)
        if len(wire.input) > MOST_CHARACTERS:
            raise refused("input", f"has {len(wire.input)} characters; at most {MOST_CHARACTERS} are converted.")
        answer = await post.context.isolation.run(CONVERT, encode(wire), owner=post.tenant.owner)
        await post.send_response(Response(answer, media_type="application/json"))
