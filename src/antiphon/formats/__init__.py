"""Conversation ⇄ pieces."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .format import (
        NO_OPINION,
        ForeseeingParser,
        Format,
        FormatFactory,
        FormatRegistry,
        HistoryPolicy,
        Parser,
        SamplingDefaults,
    )
else:
    __getattr__ = exports(
        __name__,
        {
            "format": (
                "ForeseeingParser Format FormatFactory FormatRegistry HistoryPolicy NO_OPINION Parser SamplingDefaults"
            ),
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
