"""A client's grammar, in whichever of the two notations, as a grammar of ours."""

from __future__ import annotations

import re

from antiphon.grammar.grammar import Chain, Choice, Grammar, Reference, Repeat, Rules

from .expression import MOST_CHARACTERS, Place
from .gbnf import read_gbnf
from .lark import read_lark
from .lower import lowered

_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|\[(?:\\.|[^]\\\n])*\]|/(?:\\.|[^/\\\n])+/|#[^\n]*|//[^\n]*')


def read_grammar(text: str, path: str) -> Rules:
    """The grammar of ``text``, which is at ``path`` of the request. GBNF defines with ``::=``, Lark with a colon.

    Raises `RequestError`, naming the rule and the line, for what cannot be held.
    """
    if len(text) > MOST_CHARACTERS:
        raise Place(path).refuse(f"it has more than {MOST_CHARACTERS} characters", "Ask for less at once.")
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise Place(path).refuse("it holds what is no character")
    is_gbnf = "::=" in _QUOTED.sub("", text)
    rules = lowered(read_gbnf(text, path), "root", path) if is_gbnf else read_lark(text, path)
    if rules.rules[0][0] not in _ending(rules):
        raise Place(path).refuse("no text of it ever ends", "Give each rule a way that does not lead back to it.")
    return rules


def _ending(rules: Rules) -> set[str]:
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
