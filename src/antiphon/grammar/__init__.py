"""Constraints as data: what a reply may be.

`matcher` goes from a format and a shape to what masks logits. It and its parts (`Vocabulary` and
`compile_grammar` in `antiphon.grammar.compiler`, `Matcher` in `.following`) need llguidance, the extra ``local``.
"""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .grammar import AnyText as AnyText
    from .grammar import Chain as Chain
    from .grammar import Choice as Choice
    from .grammar import ControlToken as ControlToken
    from .grammar import EndOfTurn as EndOfTurn
    from .grammar import Grammar as Grammar
    from .grammar import Json as Json
    from .grammar import KeyValues as KeyValues
    from .grammar import Literal as Literal
    from .grammar import Regex as Regex
    from .grammar import Repeat as Repeat
    from .grammar import Shared as Shared
    from .grammar import Spelling as Spelling
    from .grammar import ValueSpelling as ValueSpelling
    from .grammar import chain as chain
    from .grammar import choice as choice
    from .grammar import optional as optional
    from .lark_text import lark as lark
    from .limits import LIMITS as LIMITS
    from .limits import Limits as Limits
    from .limits import check_pattern as check_pattern
    from .limits import check_schema as check_schema
    from .shape import ReplyShape as ReplyShape
    from .shape import matcher as matcher
else:
    __getattr__ = exports(
        __name__,
        {
            "grammar": (
                "AnyText Chain Choice ControlToken EndOfTurn Grammar Json KeyValues Literal Regex "
                "Repeat Shared Spelling ValueSpelling chain choice optional"
            ),
            "lark_text": "lark",
            "limits": "LIMITS Limits check_pattern check_schema",
            "shape": "ReplyShape matcher",
        },
    )
