"""Harmony whose prompts a model's own chat template writes: to compare with servers that render it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from antiphon.conversation import Channel, Conversation, Role
from antiphon.formats import Format, HistoryPolicy
from antiphon.formats.format import drop_before
from antiphon.formats.harmony import Harmony
from antiphon.tokens import Piece

from .jinja import JinjaFormat

_BUILTINS = "builtin_tools"
"""The template's argument that names the server's tools to describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatedHarmony(Harmony):
    """``template`` writes the prompts; replies are read and constrained as Harmony's are."""

    template: JinjaFormat

    @property
    def arguments(self) -> Collection[str]:
        return self.template.arguments

    @property
    def efforts(self) -> Collection[str]:
        return self.template.efforts

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        """The template's prompt. What the policy drops is not handed over: some templates would write it wrongly."""
        messages = conversation.messages
        before = drop_before(messages, history)
        shown = tuple(m for i, m in enumerate(messages) if i >= before or m.is_call or m.channel != Channel.ANALYSIS)
        settings, names = conversation.settings, [namespace.name for namespace in conversation.builtins]
        if names and _BUILTINS in self.arguments and _BUILTINS not in settings.template_kwargs:
            settings = replace(settings, template_kwargs={**settings.template_kwargs, _BUILTINS: names})
        given = replace(conversation, messages=shown, settings=settings)
        return self.template.render(given, reply_as=reply_as, history=history)


def writes_harmony(template: str) -> bool:
    """Whether a chat template's text spells what every reply in Harmony has."""
    return all(spelling in template for spelling in ("<|start|>", "<|channel|>", "<|message|>"))


# Whether a prompt can have system messages that are not the first.


def takes_later_system(format: Format) -> bool:
    """Whether ``format`` writes them where they stand; a template that cannot has their texts elsewhere, or none."""
    template = format.template if isinstance(format, TemplatedHarmony) else format
    if not isinstance(template, JinjaFormat):
        return True
    takes = template.capabilities
    return takes.system and takes.later_system
