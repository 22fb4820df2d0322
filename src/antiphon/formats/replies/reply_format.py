"""How every template's replies are read and constrained: by their description, in the parser and in the grammar."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from antiphon.conversation import ResponseFormat, Role, ToolSpec
from antiphon.errors import RenderError
from antiphon.formats import Parser
from antiphon.tokens import Control, Piece

from . import CompiledDescription, DescriptionParser, ReplyDescription
from .description import NO_HABITS, Habits

if TYPE_CHECKING:
    from antiphon.grammar import Grammar, ReplyShape


class ReplyFormat:
    """A template's format, but for rendering: the parser and the grammar of replies, for a vocabulary's controls."""

    framed: ClassVar[bool] = False

    replies: ReplyDescription
    stops: tuple[Control | str, ...]
    vocabulary: frozenset[Control]
    _compiled: CompiledDescription
    _without_tools: CompiledDescription | None = None
    """For a reply to a prompt that offers no tools, where only a prompt with tools says how calls are written."""
    habits: Habits = NO_HABITS
    begin: Control | None = None
    """The control with which each prompt begins, whether the template writes it or not."""

    def begun(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces of a prompt, behind what it begins with."""
        rest = iter(pieces)
        if self.begin is None:
            return rest
        first = next(rest, self.begin)
        return chain([self.begin] if first == self.begin else [self.begin, first], rest)

    @property
    def arguments(self) -> frozenset[str]:
        return frozenset()

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
    ) -> Parser:
        return DescriptionParser(
            self._described(bool(tools)),
            prompt=prompt,
            tools=tools,
            response_format=response_format,
            calls=calls,
            strict=strict,
        )

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        from . import reply_grammar  # rendering and parsing need not wait for it

        compiled = self._described(bool(shape.tools))
        return reply_grammar(
            shape,
            compiled.description,
            controls=self.vocabulary,
            stops=self.stops,
            begun=compiled.begun_by(prompt),
            habits=self.habits,
        )

    def _described(self, has_tools: bool) -> CompiledDescription:
        return self._compiled if has_tools or self._without_tools is None else self._without_tools


def require_assistant(reply_as: Role | None) -> None:
    """Raises `RenderError` for a reply that no template can open."""
    if reply_as not in (None, Role.ASSISTANT):
        raise RenderError(f"a template opens only the assistant's reply, not {reply_as.value}'s", code="bad_reply_role")
