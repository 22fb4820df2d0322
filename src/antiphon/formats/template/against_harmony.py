"""A chat template of Harmony beside the renderer: where their prompts are the same, and where they first differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from antiphon.conversation import Conversation
from antiphon.formats.harmony import Harmony
from antiphon.tokens import spell

_SHOWN = 48


class PromptCompared(msgspec.Struct, frozen=True, kw_only=True):
    """The ``prompt`` of that name. ``at``: the character at which Harmony writes it otherwise; None where nowhere.

    ``template`` and ``harmony``: how the two go on from there.
    """

    prompt: str
    at: int | None = None
    template: str = ""
    harmony: str = ""

    @property
    def same(self) -> bool:
        return self.at is None


def compared(prompts: Mapping[str, str], conversations: Mapping[str, Conversation]) -> Iterator[PromptCompared]:
    """The template's ``prompts`` beside Harmony's of the conversations of the same names."""
    for name, written in prompts.items():
        expected = spell(list(Harmony().render(conversations[name])))
        at = next((i for i, (a, b) in enumerate(zip(written, expected, strict=False)) if a != b), None)
        if at is None and len(written) != len(expected):
            at = min(len(written), len(expected))
        if at is None:
            yield PromptCompared(prompt=name)
        else:
            end = at + _SHOWN
            yield PromptCompared(prompt=name, at=at, template=written[at:end], harmony=expected[at:end])
