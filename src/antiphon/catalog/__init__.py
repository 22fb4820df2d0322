"""The composition root: a model's name → engine, tokenizer and format; the model store; the configuration."""

from .config import Config, EngineConfig, LoadedConfig, ServerConfig, StoreConfig, load_config
from .entries import Catalogue, ModelEntry, SamplingEntry, builtin_catalogue, find_entry
from .store import InstalledModel, ModelStore

__all__ = [
    "Catalogue",
    "Config",
    "EngineConfig",
    "InstalledModel",
    "LoadedConfig",
    "ModelEntry",
    "ModelStore",
    "SamplingEntry",
    "ServerConfig",
    "StoreConfig",
    "builtin_catalogue",
    "find_entry",
    "load_config",
]
