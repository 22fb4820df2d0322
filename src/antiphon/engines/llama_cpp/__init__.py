"""The embedded engine: llama.cpp's server core in a supervised child process."""

from .engine import LlamaCppEngine
from .model_file import read_model_file
from .settings import LlamaCppSettings, Pooling

__all__ = ["LlamaCppEngine", "LlamaCppSettings", "Pooling", "read_model_file"]
