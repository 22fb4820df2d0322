"""The composition root: a model's name → engine, tokenizer and format; the model store; the configuration."""

from .catalog import Catalog
from .config import Config, EngineConfig, LoadedConfig, StoreConfig, load_config
from .entries import Catalogue, ModelEntry, SamplingEntry, builtin_catalogue, find_entry
from .loading import open_catalog
from .server import Limits, ServerConfig
from .static import StaticCatalog
from .store import InstalledModel, ModelStore

__all__ = [
    "Catalog",
    "Catalogue",
    "Config",
    "EngineConfig",
    "InstalledModel",
    "Limits",
    "LoadedConfig",
    "ModelEntry",
    "ModelStore",
    "SamplingEntry",
    "ServerConfig",
    "StaticCatalog",
    "StoreConfig",
    "builtin_catalogue",
    "find_entry",
    "load_config",
    "open_catalog",
]
