"""What writers of rules share: where a rule's text goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Protocol

import msgspec

from antiphon.conversation import JsonSchema

from .grammar import Blanks
from .spelling import Pieces


class Rules(Protocol):
    """Lark rules and terminals, written as they are needed; each method returns an expression."""

    def rule(self, kind: str, body: str, attributes: str = "") -> str:
        """The name of a rule, or a terminal, with this body."""
        ...

    def recursive(self, key: Hashable, body: Callable[[], str]) -> str:
        """The name of the rule of a key, whose body may refer to it; written once."""
        ...

    def json(self, schema: JsonSchema, *, blanks: Blanks = "never") -> str:
        """A JSON text of the engine's schema. Blanks that may be are at all places or none: the engine has no more."""
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


class Part(msgspec.Struct, frozen=True):
    """One of several: as it stands ``first``, and as it stands behind another, with what separates them.

    A separator and what follows it are one literal wherever they can be: a lexeme is never taken back.
    """

    first: str
    later: str
    required: bool = False


def sequence(rules: Rules, parts: Sequence[Part], *, more: Part | None = None) -> str:
    """The parts in order, those required present, then any number of ``more``.

    Each tail has a rule of its own, so the text is as long as the parts, not as their combinations.
    """
    tail = f"({more.later})*" if more else ""
    begins = [f"{more.first} {tail}"] if more else []
    for part in reversed(parts):
        begin = f"{part.first} {tail}"
        begins = [begin] if part.required else [begin, *begins]
        tail = rules.rule("rest", f"{part.later if part.required else f'({part.later})?'} {tail}")
    if not begins:
        return ""
    return f"({' | '.join(begins)}){'' if any(part.required for part in parts) else '?'}"


def listed_items(prefix: Sequence[str | None], item: str | None, least: int, most: int | None, comma: str) -> str:
    """The items of an array: a prefix, each part only behind the one before, then any number of ``item``."""
    room = None if most is None else max(0, int(most) - len(prefix))
    inside = ""
    if item is not None and room != 0:
        first = max(0, least - len(prefix))
        inside = f"({comma} {item}){{{first},{'' if room is None else room}}}"
        if not prefix:
            rest = f"({comma} {item}){{{max(0, least - 1)},{'' if most is None else int(most) - 1}}}"
            return f"({item} {rest}){'' if least else '?'}"
    for i, part in reversed(list(enumerate(prefix))):
        if part is None or (most is not None and i >= most):
            inside = ""
            continue
        inside = f"{comma if i else ''} {part} {inside}".strip()
        inside = inside if i < least else f"({inside})?"
    return inside
