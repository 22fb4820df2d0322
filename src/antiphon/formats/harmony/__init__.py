"""Harmony, the format of gpt-oss: exact where the reference is right, and right where it fails."""

from typing import TYPE_CHECKING

from antiphon.conversation import BROWSER, PYTHON
from antiphon.exports import exports

if TYPE_CHECKING:
    from .controls import Dialect, Types
    from .format import Harmony, harmony
    from .json_form import read_conversation, read_message, write_conversation, write_message
    from .parser import HarmonyParser
    from .reference import ReferenceParser
    from .render import Span, spans
    from .running import RunningPrompt
    from .stream import Completion, StreamParser, TokenDeltas, parse_completion
else:
    __getattr__ = exports(
        __name__,
        {
            "controls": "Dialect Types",
            "format": "Harmony harmony",
            "json_form": "read_conversation read_message write_conversation write_message",
            "parser": "HarmonyParser",
            "reference": "ReferenceParser",
            "render": "Span spans",
            "running": "RunningPrompt",
            "stream": "Completion StreamParser TokenDeltas parse_completion",
        },
    )

__all__ = [
    "BROWSER",
    "PYTHON",
    "Completion",
    "Dialect",
    "Harmony",
    "HarmonyParser",
    "ReferenceParser",
    "RunningPrompt",
    "Span",
    "StreamParser",
    "TokenDeltas",
    "Types",
    "harmony",
    "parse_completion",
    "read_conversation",
    "read_message",
    "spans",
    "write_conversation",
    "write_message",
]
