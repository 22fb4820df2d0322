"""The composition root: a model's name → engine, tokenizer and format. Each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .catalog import Catalog
    from .loading import open_catalog, open_store, reasoning_key_file
    from .static import StaticCatalog
else:
    __getattr__ = exports(
        __name__,
        {
            "catalog": "Catalog",
            "loading": "open_catalog open_store reasoning_key_file",
            "static": "StaticCatalog",
        },
    )

__all__ = ["Catalog", "StaticCatalog", "open_catalog", "open_store", "reasoning_key_file"]
