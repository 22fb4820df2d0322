"""Constraints as data: what a reply may be.

`matcher` goes from a format and a shape to what masks logits. It and its parts (`Vocabulary` and
`compile_grammar` in `antiphon.grammar.compiler`, `Matcher` in `.following`) need llguidance, the extra ``local``.
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
from .masking import matcher
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
    "matcher",
    "optional",
]
