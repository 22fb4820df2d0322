"""Literals as a grammar writes them: what the vocabulary has as a control is one, the rest is text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from antiphon.grammar import Chain, ControlToken, Grammar, Literal
from antiphon.grammar.spelling import Pieces
from antiphon.tokens import Control


class Spelled:
    """Splits literals at the controls that a vocabulary has."""

    def __init__(self, controls: Collection[Control], literals: Iterable[str]) -> None:
        self._controls = {control.spelling for control in controls if control.spelling}
        longest_first = sorted(self._controls, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})" if longest_first else "(?!)")

    def pieces(self, literal: Control | str) -> Pieces:
        """The literal's controls and what is between them."""
        if isinstance(literal, Control):
            return (literal,) if literal.spelling in self._controls else (literal.spelling,)
        parts = self._pattern.split(literal)
        return tuple(Control(part) if part in self._controls else part for part in parts if part)

    def texts(self, literal: str) -> list[str]:
        """The literal if all of it is text."""
        return [literal] if literal and not any(isinstance(piece, Control) for piece in self.pieces(literal)) else []


def joined(*parts: Grammar | Control | str) -> Chain:
    """The parts one after another. Texts that stand side by side are one: a lexeme is never taken back."""
    found: list[Grammar] = []
    for part in parts:
        for node in part.parts if isinstance(part, Chain) else (_node(part),):
            last = found[-1] if found else None
            if isinstance(node, Literal) and isinstance(last, Literal):
                found[-1] = Literal(last.text + node.text)
            elif node != Literal(""):
                found.append(node)
    return Chain(tuple(found))


def _node(part: Grammar | Control | str) -> Grammar:
    if isinstance(part, str):
        return Literal(part)
    return ControlToken(part) if isinstance(part, Control) else part
