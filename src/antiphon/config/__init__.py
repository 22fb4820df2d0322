"""The configuration: its tables, and where each value comes from."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .config import (
        BatchesConfig,
        Config,
        DialectConfig,
        EngineConfig,
        LogConfig,
        ModelFilesConfig,
        RayConfig,
        ServerConfig,
        SessionsConfig,
        ToolsConfig,
        TracesConfig,
    )
    from .keys import NO_KEYS, KeyPath, flatten, known_keys
    from .limits import Limits
    from .load import FILE, Layer, Layered, LoadedConfig, configuration, load_config, public
    from .model_table import changed_entry, shipped_entries, with_catalogue
    from .models import KEYS, O200K, Entries, HarmonyEntry, ModelEntry, SamplingEntry, find_entry, named_by
else:
    __getattr__ = exports(
        __name__,
        {
            "config": (
                "BatchesConfig Config DialectConfig EngineConfig LogConfig ModelFilesConfig RayConfig "
                "ServerConfig SessionsConfig ToolsConfig TracesConfig"
            ),
            "keys": "NO_KEYS KeyPath flatten known_keys",
            "limits": "Limits",
            "load": "FILE Layer Layered LoadedConfig configuration load_config public",
            "model_table": "changed_entry shipped_entries with_catalogue",
            "models": "Entries HarmonyEntry KEYS ModelEntry O200K SamplingEntry find_entry named_by",
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
