"""Constraints as data: what a reply may be.

`Vocabulary`, `compile_grammar` and `Matcher` are in `antiphon.grammar.compiler` and `.matcher`, which need llguidance
(the extra ``local``); what is here needs nothing.
"""

from .grammar import (
    AnyText,
    Chain,
    Choice,
    ControlToken,
    EndOfTurn,
    Grammar,
    Json,
    Literal,
    Regex,
    Repeat,
    chain,
    choice,
    optional,
)
from .lark import lark
from .limits import LIMITS, Limits, check_pattern, check_schema
from .shape import ReplyShape

__all__ = [
    "AnyText",
    "Chain",
    "Choice",
    "ControlToken",
    "EndOfTurn",
    "Grammar",
    "Json",
    "LIMITS",
    "Limits",
    "Literal",
    "Regex",
    "Repeat",
    "ReplyShape",
    "chain",
    "check_pattern",
    "check_schema",
    "choice",
    "lark",
    "optional",
]
