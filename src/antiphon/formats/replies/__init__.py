"""A model's replies by a description of them: read, and constrained."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .compiled import CompiledDescription
    from .description import PLAIN, CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value
    from .grammar import reply_grammar
    from .reader import DescriptionParser
else:
    __getattr__ = exports(
        __name__,
        {
            "compiled": "CompiledDescription",
            "description": "PLAIN CallForm Members Pairs Region ReplyDescription Slot Value",
            "grammar": "reply_grammar",
            "reader": "DescriptionParser",
        },
    )

__all__ = [
    "PLAIN",
    "CallForm",
    "CompiledDescription",
    "Members",
    "Pairs",
    "Region",
    "ReplyDescription",
    "DescriptionParser",
    "Slot",
    "Value",
    "reply_grammar",
]
