"""Conversations from one form to another, as a stream, with a list of what the other form cannot express."""

from antiphon.conversation import Loss

from .convert import SOURCES, TARGETS, Conversion
from .detect import detect
from .sidecar import Sidecar, SidecarWriter, read_sidecar

__all__ = [
    "SOURCES",
    "TARGETS",
    "Conversion",
    "Loss",
    "Sidecar",
    "SidecarWriter",
    "detect",
    "read_sidecar",
]
