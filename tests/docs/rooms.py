"""The packages that list their public names."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

ROOT = "antiphon"
"""The room of `import antiphon` itself."""
ROOMS = (
    ROOT, "api", "catalog", "config", "conversation", "conversion", "engines", "engines.grpc", "engines.llama_cpp",
    "formats", "formats.harmony", "formats.openchatml", "formats.openchatml.lint", "formats.template",
    "formats.replies", "generation", "generation.reader", "grammar", "grammar.schema", "isolation", "catalog.files",
    "observe", "store", "tokens", "tools", "tools.browser", "tools.mcp", "tools.python", "api.dialects",
)  # fmt: skip


def module_of(room: str) -> ModuleType:
    return import_module(ROOT if room == ROOT else f"{ROOT}.{room}")
