"""llama.cpp: its core in a supervised child process, and the wire that it and a server elsewhere speak."""

from importlib import import_module
from typing import TYPE_CHECKING

from .kind import LlamaCpp
from .model_file import read_model_file
from .settings import LlamaCppSettings, Pooling

if TYPE_CHECKING:
    from antiphon.engines.llama_server import LlamaServer, LlamaServerEngine

    from .engine import LlamaCppEngine

__all__ = [
    "LlamaCpp",
    "LlamaCppEngine",
    "LlamaCppSettings",
    "LlamaServer",
    "LlamaServerEngine",
    "Pooling",
    "read_model_file",
]

_LATER = {"LlamaCppEngine": ".engine", "LlamaServer": "..llama_server", "LlamaServerEngine": "..llama_server"}
"""What needs an HTTP client, which takes long to import: the settings are read by every program, these by few."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name], __name__), name)
