"""Constraints as data: what a reply may be.

`matcher` goes from a format and a shape to what masks logits. It and its parts (`Vocabulary` and
`compile_grammar` in `antiphon.grammar.compiler`, `Matcher` in `.following`) need llguidance, the extra ``local``.
"""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .grammar import (
        AnyText,
        Blanks,
        Chain,
        Choice,
        ControlToken,
        EndOfTurn,
        Grammar,
        Json,
        KeyValues,
        Literal,
        Regex,
        Repeat,
        Shared,
        Spelling,
        ValueSpelling,
        chain,
        choice,
        optional,
    )
    from .lark_text import lark
    from .limits import LIMITS, Limits, check_pattern, check_schema
    from .shape import ReplyShape, matcher
else:
    __getattr__ = exports(
        __name__,
        {
            "grammar": (
                "AnyText Blanks Chain Choice ControlToken EndOfTurn Grammar Json KeyValues Literal Regex "
                "Repeat Shared Spelling ValueSpelling chain choice optional"
            ),
            "lark_text": "lark",
            "limits": "LIMITS Limits check_pattern check_schema",
            "shape": "ReplyShape matcher",
        },
    )

__all__ = [
    "AnyText",
    "Blanks",
    "Chain",
    "Choice",
    "ControlToken",
    "EndOfTurn",
    "Grammar",
    "Json",
    "KeyValues",
    "LIMITS",
    "Limits",
    "Literal",
    "Regex",
    "Repeat",
    "ReplyShape",
    "Shared",
    "Spelling",
    "ValueSpelling",
    "chain",
    "check_pattern",
    "check_schema",
    "choice",
    "lark",
    "matcher",
    "optional",
]
