"""A client's grammar, in whichever of the two notations, as a grammar of ours."""

from __future__ import annotations

import re

from antiphon.grammar.grammar import Chain, Choice, Grammar, NamedRules, Reference, Repeat

from .expression import MOST_CHARACTERS, Place
from .gbnf import read_gbnf
from .lark import read_lark
from .lower import lowered

_IS_GBNF = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*[A-Za-z_][A-Za-z0-9_-]*[ \t\r\n]*::=")
"""The first thing in it is the definition of a rule."""


def read_grammar(text: str, path: str) -> NamedRules:
    """The grammar of ``text``, which is at ``path`` of the request. GBNF defines with ``::=``, Lark with a colon.

    Raises `RequestError`, naming the rule and the line, for what is not possible.
    """
    if len(text) > MOST_CHARACTERS:
        raise Place(path).refuse(f"it has more than {MOST_CHARACTERS} characters", "Ask for less at once.")
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise Place(path).refuse("it holds what is no character")
    rules = lowered(read_gbnf(text, path), "root", path) if _IS_GBNF.match(text) else read_lark(text, path)
    if rules.rules[0][0] not in _ending(rules):
        raise Place(path).refuse("no text of it ever ends", "Give each rule a way that does not lead back to it.")
    return rules


def _ending(rules: NamedRules) -> set[str]:
    """The rules that have a text with an end."""
    ending: set[str] = set()
    waiting = list(rules.rules)
    while True:
        waiting.reverse()  # What is defined in order, either way, takes two rounds.
        left = []
        for name, body in waiting:
            if _ends(body, ending):
                ending.add(name)
            else:
                left.append((name, body))
        if len(left) == len(waiting):
            return ending
        waiting = left


def _ends(body: Grammar, ending: set[str]) -> bool:
    match body:
        case Reference(name):
            return name in ending
        case Chain(parts):
            return all(_ends(part, ending) for part in parts)
        case Choice(options):
            return any(_ends(option, ending) for option in options)
        case Repeat(item, least, _):
            return least == 0 or _ends(item, ending)
        case _:
            return True
