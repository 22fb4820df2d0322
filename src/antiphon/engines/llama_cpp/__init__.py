"""llama.cpp: its core in a supervised child process, a server that runs elsewhere, and the wire that both speak."""

from importlib import import_module
from typing import TYPE_CHECKING

from .kind import LlamaCpp
from .model_file import read_model_file
from .settings import LlamaCppSettings, Pooling

if TYPE_CHECKING:
    from .engine import LlamaCppEngine
    from .server import LlamaServer, LlamaServerEngine

__all__ = [
    "LlamaCpp",
    "LlamaCppEngine",
    "LlamaCppSettings",
    "LlamaServer",
    "LlamaServerEngine",
    "Pooling",
    "read_model_file",
]

_LATER = {"LlamaCppEngine": "engine", "LlamaServer": "server", "LlamaServerEngine": "server"}
"""What needs an HTTP client, which takes long to import: the settings are read by every program, these by few."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
