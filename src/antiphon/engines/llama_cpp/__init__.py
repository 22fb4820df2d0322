"""llama.cpp: its core in a supervised child process, and the wire that it and a server elsewhere speak."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

from .kind import LlamaCpp

if TYPE_CHECKING:
    from antiphon.engines.llama_server import LlamaServer, LlamaServerEngine

    from .engine import LlamaCppEngine
    from .model_file import read_model_file
    from .settings import LlamaCppSettings, Pooling
else:
    __getattr__ = exports(
        __name__,
        {
            "engine": "LlamaCppEngine",
            "model_file": "read_model_file",
            "settings": "LlamaCppSettings Pooling",
            ".llama_server": "LlamaServer LlamaServerEngine",
        },
    )

__all__ = [
    "LlamaCpp",
    "LlamaCppEngine",
    "LlamaCppSettings",
    "LlamaServer",
    "LlamaServerEngine",
    "Pooling",
    "read_model_file",
]
