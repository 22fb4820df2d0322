"""A model's replies by a description of them: read, and constrained."""

from .compiled import CompiledDescription
from .description import PLAIN, CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value
from .grammar import reply_grammar
from .reader import DescriptionParser

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
