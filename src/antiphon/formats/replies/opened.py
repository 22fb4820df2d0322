"""What may follow where the prompt has written the beginning of a mark that several things begin with."""

from __future__ import annotations

from antiphon.grammar import Chain, Choice, ControlToken, Grammar, Literal, Repeat, choice
from antiphon.tokens import Control

from .spelled import joined


def behind(grammar: Grammar, opened: Control | str) -> Grammar | None:
    """The rest of what begins with ``opened``; None where nothing does."""
    match grammar:
        case Literal(text) if isinstance(opened, str) and text.startswith(opened):
            return Literal(text.removeprefix(opened))
        case ControlToken(control) if control == opened:
            return Literal("")
        case Choice(options):
            found = [rest for option in options if (rest := behind(option, opened)) is not None]
            return choice(*found) if found else None
        case Chain((first, *rest)):
            return _behind_chain(first, Chain(tuple(rest)), opened)
        case Repeat(item, _, most) if most == 1:
            return behind(item, opened)
        case _:
            return None


def _behind_chain(first: Grammar, rest: Chain, opened: Control | str) -> Grammar | None:
    begun = behind(first, opened)
    ways = [joined(begun, rest)] if begun is not None else []
    if isinstance(first, Repeat) and not first.least and (left_out := behind(rest, opened)) is not None:
        ways.append(joined(left_out))
    return choice(*ways) if len(ways) > 1 else ways[0] if ways else None
