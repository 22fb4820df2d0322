"""POST /v1/schemas/check: what of a JSON Schema is enforced and when, and where a text leaves it."""

from __future__ import annotations

from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused
from antiphon.wire.native.schema_check import MOST_TEXT, SchemaChecks
from antiphon.wire.native.schema_check_schema import SchemaCheckRequest

_CHECKS = SchemaChecks()


class CheckSchema(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(SchemaCheckRequest)
        if wire.text is not None and len(wire.text) > MOST_TEXT:
            raise refused("text", f"has {len(wire.text)} characters; at most {MOST_TEXT} are followed.")
        await post.send_json(await _CHECKS.check(wire))
