"""The configuration: its tables, and where each value comes from."""

from .config import Config, EngineConfig, LoadedConfig, SessionsConfig, StoreConfig, load_config
from .entries import Catalogue, ModelEntry, SamplingEntry, builtin_catalogue, find_entry
from .server import Limits, ServerConfig

__all__ = [
    "Catalogue",
    "Config",
    "EngineConfig",
    "Limits",
    "LoadedConfig",
    "ModelEntry",
    "SamplingEntry",
    "ServerConfig",
    "SessionsConfig",
    "StoreConfig",
    "builtin_catalogue",
    "find_entry",
    "load_config",
]
