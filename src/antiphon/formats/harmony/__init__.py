"""Harmony, the format of gpt-oss: exact where the reference is right, and right where it fails."""

from antiphon.conversation import BROWSER, PYTHON

from .harmony import Harmony, Types, harmony
from .header_writer import Dialect
from .json_form import read_conversation, read_message, write_conversation, write_message
from .parser import HarmonyParser
from .pretty import Span, spans
from .reference import ReferenceParser
from .running import RunningPrompt
from .stream import Completion, StreamParser, TokenDeltas, parse_completion

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
