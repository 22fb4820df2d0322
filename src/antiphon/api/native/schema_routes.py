"""POST /v1/schemas/check: what of a JSON Schema is enforced and when, and where a text leaves it."""

from __future__ import annotations

from starlette.responses import Response

from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from .schema_check import CHECK, MOST_TEXT
from .schema_check_schema import SchemaCheckRequest


class CheckSchema(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(SchemaCheckRequest)
        if wire.text is not None and len(wire.text) > MOST_TEXT:
            raise refused("text", f"has {len(wire.text)} characters; at most {MOST_TEXT} are followed.")
        answer = await post.context.isolation.run(CHECK, encode(wire), owner=post.tenant.owner)
        await post.send_response(Response(answer, media_type="application/json"))
