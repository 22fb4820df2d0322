"""A model's own template tried in a process of its own, before anything here renders it."""

from __future__ import annotations

import sys
from contextlib import closing

import msgspec

from antiphon.config import ModelEntry
from antiphon.errors import RequestError, TemplateError
from antiphon.isolation import Isolation, Task

from .files.text import ModelText
from .format_choice import template_parts

TRY = Task("antiphon.formats.template.stability:work", "rendering some prompts", processor=5.0, memory=512 * 2**20)


async def try_template(name: str, entry: ModelEntry, text: ModelText) -> None:
    """Renders some prompts with the template that the model's files, or its entry, name.

    Raises `TemplateError` for one that is malformed, or that takes too much to render them (``template_limit``).
    """
    parts = template_parts(name, entry, text)
    if entry.task != "chat" or parts is None or sys.platform == "win32":  # There is no fork.
        return
    with closing(Isolation(seconds=6 * TRY.processor)) as isolated:
        try:
            await isolated.run(TRY, msgspec.json.encode(parts))
        except RequestError as error:
            raise TemplateError(
                f"the chat template of {name} is not used: {error.message}",
                code="template_limit",
                hint="Configure another chat_template, or a format.",
            ) from None
