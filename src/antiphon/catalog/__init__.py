"""The composition root: a model's name → engine, tokenizer and format. Each name is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .catalog import Catalog
    from .loading import open_catalog
    from .static import StaticCatalog
    from .stores import open_store, reasoning_key_file

__all__ = ["Catalog", "StaticCatalog", "open_catalog", "open_store", "reasoning_key_file"]

if not TYPE_CHECKING:  # a type checker is to find a name that is not there
    _HOME = {
        "Catalog": ".catalog",
        "StaticCatalog": ".static",
        "open_catalog": ".loading",
        "open_store": ".stores",
        "reasoning_key_file": ".stores",
    }

    def __getattr__(name: str) -> object:
        """Imports no more than is used: whoever renders by one of the formats here needs no engine."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOME[name], __name__), name)
