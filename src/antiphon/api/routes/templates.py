"""POST /v1/templates/check: what is understood of a chat template; /v1/templates/try: one prompt and one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from antiphon.generation import Model
from antiphon.http.post import Post, PostRoute
from antiphon.wire.native.template_schema import TemplateCheckRequest
from antiphon.wire.native.template_try_schema import TemplateTryRequest
from antiphon.wire.native.templates import checked_template
from antiphon.wire.native.templates_tried import tried_template

from .reading import reading_of

_ONE = ThreadPoolExecutor(1, thread_name_prefix="template-check")
"""A check is seconds of work: one at a time, whoever asks, beside the event loop."""
_TRIALS = ThreadPoolExecutor(1, thread_name_prefix="template-try")
"""A trial is less, and does not wait for checks."""

Result = TypeVar("Result")


class CheckTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateCheckRequest)
        model = await _model(post, wire)
        await post.send_json(await _beside(_ONE, lambda: checked_template(wire, model)))


class TryTemplate(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(TemplateTryRequest)
        model, reading = await _model(post, wire), reading_of(post)
        await post.send_json(await _beside(_TRIALS, lambda: tried_template(wire, model, reading)))


async def _model(post: Post, wire: TemplateCheckRequest | TemplateTryRequest) -> Model | None:
    """The model that is named, or the default where no template is there."""
    return await post.model(wire.model) if wire.model is not None or wire.template is None else None


async def _beside(threads: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(threads, work)
