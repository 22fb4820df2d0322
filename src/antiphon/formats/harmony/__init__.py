"""Harmony, the format of gpt-oss: exact where the reference is right, and right where it fails."""

from .builtins import BROWSER, PYTHON
from .harmony import Harmony, harmony
from .json_form import read_conversation, read_message, write_conversation, write_message
from .parser import HarmonyParser
from .reference import ReferenceParser
from .render import Dialect

__all__ = [
    "BROWSER",
    "PYTHON",
    "Dialect",
    "Harmony",
    "HarmonyParser",
    "ReferenceParser",
    "harmony",
    "read_conversation",
    "read_message",
    "write_conversation",
    "write_message",
]
