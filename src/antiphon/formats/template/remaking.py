"""A template's format made of its parts, and all that a server does with a template before it is trusted."""

from __future__ import annotations

import msgspec

from antiphon.errors import AntiphonError
from antiphon.structs import ready
from antiphon.tokens import Control

from .jinja import JinjaCache, JinjaFormat, jinja_format
from .parts import TemplateParts
from .stability import sample_prompts


def made_of(parts: TemplateParts, cache: JinjaCache | None = None) -> JinjaFormat:
    """The format of these parts. Raises `TemplateError`."""
    return jinja_format(
        parts.source,
        list(map(Control, parts.controls)),
        parts.special_tokens,
        name=parts.name,
        replies=parts.replies,
        response_template=parts.response_template,
        cache=cache,
        teaches=parts.teaches,
    )


def work(piece: bytes) -> bytes:
    """Makes the format of parts, and renders some prompts with it, in a process of its own.

    Raises `TemplateError` where the source is no template; what it refuses to write is its own affair.
    """
    format = made_of(msgspec.json.decode(piece, type=ready(TemplateParts)))
    for _, conversation in sample_prompts():
        try:
            list(format.render(conversation))
        except AntiphonError:
            continue
    return b""
