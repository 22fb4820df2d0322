"""The parts that a template's format is made of, as values that another process can be sent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from antiphon.formats.replies import ReplyDescription


class TemplateParts(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `jinja_format`; ``controls`` by their spellings."""

    source: str
    name: str = "template"
    controls: tuple[str, ...] = ()
    special_tokens: Mapping[str, str] = {}
    replies: ReplyDescription | None = None
    response_template: ReplyDescription | None = None
    teaches: bool = True
