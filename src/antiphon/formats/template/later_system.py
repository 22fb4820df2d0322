"""Whether a prompt can have system messages that are not the first."""

from __future__ import annotations

from antiphon.formats import Format

from .in_harmony import TemplatedHarmony
from .jinja import JinjaFormat


def takes_later_system(format: Format) -> bool:
    """Whether ``format`` writes them where they stand; a template that cannot has their texts elsewhere, or none."""
    template = format.template if isinstance(format, TemplatedHarmony) else format
    if not isinstance(template, JinjaFormat):
        return True
    takes = template.capabilities
    return takes.system and takes.later_system
