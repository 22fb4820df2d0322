"""Conversation ⇄ pieces."""

from .format import Format, HistoryPolicy, Parser, SamplingDefaults
from .registry import FormatFactory, FormatRegistry

__all__ = ["Format", "FormatFactory", "FormatRegistry", "HistoryPolicy", "Parser", "SamplingDefaults"]
