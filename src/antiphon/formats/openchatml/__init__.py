"""OpenChatML 2.2: transcripts and prompts."""

from .document import OURS, Capabilities, DocumentHeader, HarmonyProfile
from .finding import SUMMARIES, Finding
from .frames import Trivia
from .openchatml import OpenChatML, for_prompt, openchatml
from .reader import Envelope, Reader, iter_read, read, repair, validate
from .writer import Writer, iter_write, unwritable, write, write_bytes

__all__ = [
    "Capabilities",
    "DocumentHeader",
    "Envelope",
    "Finding",
    "HarmonyProfile",
    "OURS",
    "OpenChatML",
    "Reader",
    "SUMMARIES",
    "Trivia",
    "Writer",
    "iter_read",
    "for_prompt",
    "iter_write",
    "openchatml",
    "read",
    "repair",
    "unwritable",
    "validate",
    "write",
    "write_bytes",
]
