"""Harmony, the format of gpt-oss: exact where the reference is right, and right where it fails."""

from .harmony import Harmony
from .json_form import read_conversation, write_conversation

__all__ = ["Harmony", "read_conversation", "write_conversation"]
