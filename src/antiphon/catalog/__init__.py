"""The composition root: a model's name → engine, tokenizer and format."""

from .catalog import Catalog
from .loading import open_catalog
from .static import StaticCatalog
from .stores import open_store, reasoning_key_file

__all__ = ["Catalog", "StaticCatalog", "open_catalog", "open_store", "reasoning_key_file"]
