"""What writers of rules share: where a rule's text goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Protocol

from antiphon.conversation import JsonSchema

from .spelling import Pieces


class Rules(Protocol):
    """Lark rules and terminals, written as they are needed; each method returns an expression."""

    def rule(self, kind: str, body: str, attributes: str = "") -> str:
        """The name of a rule, or a terminal, with this body."""
        ...

    def recursive(self, key: Hashable, body: Callable[[], str]) -> str:
        """The name of the rule of a key, whose body may refer to it; written once."""
        ...

    def json(self, schema: JsonSchema, *, spaced: bool = False) -> str:
        """A JSON text of the engine's schema."""
        ...

    def pieces(self, pieces: Pieces) -> str:
        """These and nothing else."""
        ...

    def closed(self, text: str, closing: Pieces) -> str:
        """A text of a terminal's pattern, and what closes it."""
        ...

    def clear(self, text: str, spellings: Collection[str]) -> str:
        """The terminal's pattern without texts that spell one of these."""
        ...


def sequence(
    rules: Rules, parts: Sequence[tuple[str, bool]], separator: str, *, more: str | None = None, least: int = 0
) -> str:
    """The parts in order, those required (True) present, then at least ``least`` of ``more``, each two separated.

    Each tail has a rule of its own, so the text is as long as the parts, not as their combinations.
    """
    tail = f"({separator} {more}){_at_least(least)}" if more else ""
    begins = [f"{more} ({separator} {more}){_at_least(least - 1)}"] if more else []
    may_be_empty = not least
    for part, required in reversed(parts):
        begin = f"{part} {tail}"
        begins = [begin] if required else [begin, *begins]
        may_be_empty = may_be_empty and not required
        follows = f"{separator} {part}" if required else f"({separator} {part})?"
        tail = rules.rule("rest", f"{follows} {tail}") if tail else rules.rule("rest", follows)
    if not begins:
        return ""
    return f"({' | '.join(begins)}){'?' if may_be_empty else ''}"


def _at_least(count: int) -> str:
    return f"{{{count},}}" if count > 0 else "*"
