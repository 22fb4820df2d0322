"""`oss-harmony` over Antiphon: the names of `openai_harmony`, for programs that install the fork, such as vLLM.

It installs the module `openai_harmony` too; calls are rendered in its dialect (b).
"""

from __future__ import annotations

from .openai_harmony import *  # noqa: F403 - all of its names, and no other
from .openai_harmony import HarmonyEncoding, HarmonyEncodingName
from .openai_harmony import __all__ as __all__
from .openai_harmony import load_harmony_encoding as load


def load_harmony_encoding(name: str | HarmonyEncodingName) -> HarmonyEncoding:  # type: ignore[no-redef]  # in its place
    """The encoding by name; read once a process. Raises ValueError."""
    return load(name, dialect="b")
