"""POST /v1/templates/check: what is understood of a chat template, and what it would lose."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from antiphon.http.post import Post, PostRoute
from antiphon.wire.native.template_schema import CheckedTemplate, TemplateCheckRequest
from antiphon.wire.native.templates import checked_template

_ONE = ThreadPoolExecutor(1, thread_name_prefix="template-check")
"""A check is seconds of work: one at a time, whoever asks, beside the event loop."""


class CheckTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateCheckRequest)
        model = await post.model(wire.model) if wire.model or wire.template is None else None

        def check() -> CheckedTemplate:
            return checked_template(wire, model)

        await post.send_json(await asyncio.get_running_loop().run_in_executor(_ONE, check))
