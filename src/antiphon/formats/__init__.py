"""Conversation ⇄ pieces."""

from .format import NO_OPINION, ForeseeingParser, Format, HistoryPolicy, Parser, SamplingDefaults
from .registry import FormatFactory, FormatRegistry

__all__ = [
    "NO_OPINION",
    "ForeseeingParser",
    "Format",
    "FormatFactory",
    "FormatRegistry",
    "HistoryPolicy",
    "Parser",
    "SamplingDefaults",
]
