"""The configuration: its tables, and where each value comes from."""

from .config import Config
from .dialect import DialectConfig
from .engine import EngineConfig
from .keys import KeyPath, flatten
from .layers import FILE
from .limits import Limits
from .load import LoadedConfig, load_config
from .log import LogConfig
from .model_table import changed_entry
from .models import O200K, Entries, ModelEntry, SamplingEntry, find_entry
from .server import ServerConfig
from .sessions import SessionsConfig
from .shipped import shipped_entries
from .store import ModelFilesConfig
from .tools import ToolsConfig
from .traces import TracesConfig

__all__ = [
    "Config",
    "DialectConfig",
    "EngineConfig",
    "Entries",
    "FILE",
    "KeyPath",
    "Limits",
    "LoadedConfig",
    "LogConfig",
    "ModelEntry",
    "ModelFilesConfig",
    "O200K",
    "SamplingEntry",
    "ServerConfig",
    "SessionsConfig",
    "ToolsConfig",
    "TracesConfig",
    "changed_entry",
    "find_entry",
    "flatten",
    "load_config",
    "shipped_entries",
]
