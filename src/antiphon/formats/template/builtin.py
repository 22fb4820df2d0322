"""The built-in templates as formats."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from msgspec.structs import replace

from antiphon.formats import Format, FormatRegistry
from antiphon.formats.replies import PLAIN, CallForm, Members, Region, ReplyDescription, Slot
from antiphon.tokens import Control

from .base import BaseTemplate
from .format import TemplateFormat
from .registry import TemplateRegistry, builtin_templates

_THINK = Region(open="<think>\n", close="\n</think>\n\n")
_HERMES_CALL = CallForm(open="<tool_call>\n", close="\n</tool_call>", separator="\n", members=Members())
_PARAMETERS = Members(arguments="parameters")
_INTERNLM_CALL = CallForm(open="<|action_start|><|plugin|>\n", close="<|action_end|>", members=_PARAMETERS)

HERMES = ReplyDescription(calls=(_HERMES_CALL,))
QWEN = ReplyDescription(reasoning=_THINK, calls=(_HERMES_CALL,))
_INTERNLM = ReplyDescription(calls=(_INTERNLM_CALL,))
_INTERN_S1 = ReplyDescription(
    reasoning=Region(open="<think>\n", close="\n</think>\n"), calls=(replace(_INTERNLM_CALL, close="\n<|action_end|>"),)
)
_LLAMA = ReplyDescription(
    calls=(
        CallForm(open="<function=", head=(Slot(reads="name", after=">"),), close="</function>"),
        CallForm(open="<|python_tag|>", members=_PARAMETERS),
        CallForm(members=_PARAMETERS),
    )
)

REPLIES = {
    **dict.fromkeys(("chatml", "qwen2d5", "qwen2d5-vl", "qwq_preview"), HERMES),
    **dict.fromkeys(("qwen3", "qwq"), QWEN),
    **dict.fromkeys(("internlm2", "internlm3", "internvl2_5", "internvl-internlm2", "internvl2-internlm2"), _INTERNLM),
    **dict.fromkeys((f"internlm2-chat{size}" for size in ("", "-1_8b", "-7b", "-20b")), _INTERNLM),
    **dict.fromkeys(("intern-s1", "interns1"), _INTERN_S1),
    **dict.fromkeys(("llama3_1", "llama3_2"), _LLAMA),
    "deepseek-r1": ReplyDescription(reasoning=_THINK),
}
"""How the models of the built-in templates write their replies; the others reply with plain text."""


def replies_of(name: str, template: BaseTemplate) -> ReplyDescription:
    """How a template's model writes its replies: by its name, else as the built-in one that it derives from."""
    bases = (REPLIES[base.__name__] for base in type(template).__mro__ if base.__name__ in REPLIES)
    return REPLIES.get(name) or next(bases, PLAIN)


def template_format(
    name: str,
    controls: Collection[Control],
    *,
    templates: TemplateRegistry | None = None,
    replies: ReplyDescription | None = None,
) -> Format:
    """The template of that name as a format for a vocabulary with these controls. Raises `TemplateError`.

    ``replies`` None: as the models of that name, or of the built-in template that it derives from, write theirs.
    """
    registry = templates if templates is not None else builtin_templates()
    template = registry.get(name)()
    return TemplateFormat(
        name, template, controls, replies=replies if replies is not None else replies_of(name, template)
    )


def register_templates(registry: FormatRegistry, templates: TemplateRegistry | None = None) -> None:
    """Fills ``registry`` with every template by name; ValueError for a name that is taken there."""
    named = templates if templates is not None else builtin_templates()
    for name in named.names:
        if name != "hf":
            registry.register(name, partial(template_format, name, templates=named))
