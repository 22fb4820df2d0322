"""POST /v1/templates/check: what is understood of a chat template; /v1/templates/try: one prompt and one reply."""

from __future__ import annotations

import asyncio

from antiphon.api.reading import reading_of
from antiphon.generation import Model
from antiphon.http.post import Post, PostRoute

from .template_schema import TemplateCheckRequest
from .template_try_schema import TemplateTryRequest
from .template_work import checked_template, tried_template
from .templates_tried import tried_own


class CheckTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateCheckRequest)
        model = await _model(post, wire)
        isolated = post.context.isolation
        await post.send_json(await checked_template(wire, model, isolated, post.tenant.owner))


class TryTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateTryRequest)
        model, reading = await _model(post, wire), reading_of(post)
        if wire.template is None and model is not None:
            await post.send_json(await asyncio.to_thread(tried_own, wire, model, reading))
            return
        isolated = post.context.isolation
        await post.send_json(await tried_template(wire, model, reading, isolated, post.tenant.owner))


async def _model(post: Post, wire: TemplateCheckRequest | TemplateTryRequest) -> Model | None:
    """The model that is named, or the default where no template is there."""
    return await post.model(wire.model) if wire.model is not None or wire.template is None else None
