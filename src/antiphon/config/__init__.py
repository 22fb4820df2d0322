"""The configuration: its tables, and where each value comes from."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .batches import BatchesConfig
    from .config import Config
    from .dialect import DialectConfig
    from .engine import EngineConfig
    from .keys import NO_KEYS, KeyPath, flatten, known_keys
    from .layers import FILE, Layer, Layered
    from .limits import Limits
    from .load import LoadedConfig, configuration, load_config, public
    from .log import LogConfig
    from .model_table import changed_entry
    from .models import KEYS, O200K, Entries, HarmonyEntry, ModelEntry, SamplingEntry, find_entry
    from .names import named_by
    from .ray import RayConfig
    from .server import ServerConfig
    from .sessions import SessionsConfig
    from .shipped import shipped_entries, with_catalogue
    from .store import ModelFilesConfig
    from .tools import ToolsConfig
    from .traces import TracesConfig
else:
    __getattr__ = exports(
        __name__,
        {
            "batches": "BatchesConfig",
            "config": "Config",
            "dialect": "DialectConfig",
            "engine": "EngineConfig",
            "keys": "NO_KEYS KeyPath flatten known_keys",
            "layers": "FILE Layer Layered",
            "limits": "Limits",
            "load": "LoadedConfig configuration load_config public",
            "log": "LogConfig",
            "model_table": "changed_entry",
            "models": "KEYS O200K Entries HarmonyEntry ModelEntry SamplingEntry find_entry",
            "names": "named_by",
            "ray": "RayConfig",
            "server": "ServerConfig",
            "sessions": "SessionsConfig",
            "shipped": "shipped_entries with_catalogue",
            "store": "ModelFilesConfig",
            "tools": "ToolsConfig",
            "traces": "TracesConfig",
        },
    )

__all__ = [
    "BatchesConfig",
    "Config",
    "DialectConfig",
    "EngineConfig",
    "Entries",
    "FILE",
    "HarmonyEntry",
    "KEYS",
    "KeyPath",
    "Layer",
    "Layered",
    "Limits",
    "LoadedConfig",
    "LogConfig",
    "ModelEntry",
    "ModelFilesConfig",
    "NO_KEYS",
    "O200K",
    "SamplingEntry",
    "RayConfig",
    "ServerConfig",
    "SessionsConfig",
    "ToolsConfig",
    "TracesConfig",
    "changed_entry",
    "configuration",
    "find_entry",
    "flatten",
    "known_keys",
    "load_config",
    "named_by",
    "public",
    "shipped_entries",
    "with_catalogue",
]
