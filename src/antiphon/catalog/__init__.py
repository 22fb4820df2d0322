"""The composition root: a model's name → engine, tokenizer and format."""

from .catalog import Catalog
from .loading import open_catalog
from .static import StaticCatalog

__all__ = ["Catalog", "StaticCatalog", "open_catalog"]
