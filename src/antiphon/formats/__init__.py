"""Conversation ⇄ pieces."""

from .format import NO_OPINION, Format, HistoryPolicy, Parser, SamplingDefaults
from .registry import FormatFactory, FormatRegistry

__all__ = ["NO_OPINION", "Format", "FormatFactory", "FormatRegistry", "HistoryPolicy", "Parser", "SamplingDefaults"]
