"""How every template's replies are read and constrained: by the model's tags, in the parser and in the grammar."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from antiphon.conversation import Role
from antiphon.errors import RenderError
from antiphon.formats import Parser
from antiphon.grammar import Grammar, ReplyShape
from antiphon.tokens import Control, Piece

from .reply_grammar import reply_grammar
from .reply_parser import TaggedParser
from .tags import ReplyTags


class ReplyFormat:
    """A template's format, but for rendering: the parser and the grammar of replies, for a vocabulary's controls."""

    framed: ClassVar[bool] = False

    tags: ReplyTags
    stops: tuple[Control | str, ...]
    vocabulary: frozenset[Control]

    @property
    def arguments(self) -> frozenset[str]:
        return frozenset()

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[str] = (),
    ) -> Parser:
        return TaggedParser(
            self.tags,
            controls=self.vocabulary,
            stops=self.stops,
            begins_in_reasoning=begins_in_reasoning(self.tags, prompt),
            strict=strict,
        )

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        return reply_grammar(
            shape,
            self.tags,
            controls=self.vocabulary,
            stops=self.stops,
            begins_in_reasoning=begins_in_reasoning(self.tags, prompt),
        )


def require_assistant(reply_as: Role | None) -> None:
    """Raises `RenderError` for a reply that no template can open."""
    if reply_as not in (None, Role.ASSISTANT):
        raise RenderError(f"a template opens only the assistant's reply, not {reply_as.value}'s", code="bad_reply_role")


def begins_in_reasoning(tags: ReplyTags, prompt: Sequence[Piece]) -> bool:
    """Whether the prompt's tail opened the reasoning tag, and did not close it (P-09)."""
    if tags.reasoning is None:
        return False
    tail = ""
    for piece in reversed(prompt):
        if isinstance(piece, str):
            tail = piece + tail
        elif str(piece) in (tags.reasoning.open, tags.reasoning.close):
            return str(piece) == tags.reasoning.open
        else:
            break
    opened, closed = tail.rfind(tags.reasoning.open), tail.rfind(tags.reasoning.close)
    ends_open = tail.rstrip().endswith(tags.reasoning.open)
    return ends_open or (opened > closed and any(isinstance(piece, Control) for piece in prompt))
