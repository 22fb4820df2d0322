"""Conversation ⇄ pieces."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .format import NO_OPINION, ForeseeingParser, Format, HistoryPolicy, Parser, SamplingDefaults
    from .registry import FormatFactory, FormatRegistry
else:
    __getattr__ = exports(
        __name__,
        {
            "format": "NO_OPINION ForeseeingParser Format HistoryPolicy Parser SamplingDefaults",
            "registry": "FormatFactory FormatRegistry",
        },
    )

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
