"""Conversations from one form to another, as a stream, with a list of what the other form cannot express."""

from antiphon.conversation import Loss

from .convert import SOURCES, TARGETS, Conversion, LineConversions, source_named, target_named
from .detect import detect, form_of
from .harmony import harmony_findings
from .sidecar import Sidecar, SidecarWriter, read_sidecar

__all__ = [
    "SOURCES",
    "TARGETS",
    "Conversion",
    "LineConversions",
    "Loss",
    "Sidecar",
    "SidecarWriter",
    "detect",
    "form_of",
    "harmony_findings",
    "read_sidecar",
    "source_named",
    "target_named",
]
