"""The built-in templates as formats."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from antiphon.formats import Format, FormatRegistry
from antiphon.tokens import Control

from .base import BaseTemplate
from .format import TemplateFormat
from .registry import TemplateRegistry, builtin_templates
from .tags import HERMES_CALL, INTERNLM_CALL, LLAMA_CALLS, PLAIN, THINK, ReplyTags

_HERMES = ReplyTags(calls=(HERMES_CALL,))
_QWEN = ReplyTags(reasoning=THINK, calls=(HERMES_CALL,))
_INTERNLM = ReplyTags(calls=(INTERNLM_CALL,))

TAGS = {
    **dict.fromkeys(("chatml", "qwen2d5", "qwen2d5-vl", "qwq_preview"), _HERMES),
    **dict.fromkeys(("qwen3", "qwq"), _QWEN),
    **dict.fromkeys(("internlm2", "internlm3", "internvl2_5", "internvl-internlm2", "internvl2-internlm2"), _INTERNLM),
    **dict.fromkeys((f"internlm2-chat{size}" for size in ("", "-1_8b", "-7b", "-20b")), _INTERNLM),
    **dict.fromkeys(("intern-s1", "interns1"), ReplyTags(reasoning=THINK, calls=(INTERNLM_CALL,))),
    **dict.fromkeys(("llama3_1", "llama3_2"), ReplyTags(calls=LLAMA_CALLS)),
    "deepseek-r1": ReplyTags(reasoning=THINK),
}
"""How the models of the built-in templates tag their replies; the others reply with plain text."""


def tags_of(name: str, template: BaseTemplate) -> ReplyTags:
    """How a template's model tags its replies: as those of its name, else of the built-in one that it derives from."""
    bases = (TAGS[base.__name__] for base in type(template).__mro__ if base.__name__ in TAGS)
    return TAGS.get(name) or next(bases, PLAIN)


def template_format(
    name: str,
    controls: Collection[Control],
    *,
    templates: TemplateRegistry | None = None,
    tags: ReplyTags | None = None,
) -> Format:
    """The template of that name as a format for a vocabulary with these controls. Raises `TemplateError`."""
    registry = templates if templates is not None else builtin_templates()
    template = registry.get(name)()
    return TemplateFormat(name, template, controls, tags=tags if tags is not None else tags_of(name, template))


def register_templates(registry: FormatRegistry, templates: TemplateRegistry | None = None) -> None:
    """Fills ``registry`` with every template by name; ValueError for a name that is taken there."""
    named = templates if templates is not None else builtin_templates()
    for name in named.names:
        if name != "hf":
            registry.register(name, partial(template_format, name, templates=named))
