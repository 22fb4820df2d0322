"""HTTP: the APIs that people already use."""

from .app import create_app
from .dialect import OPENAI, Dialect
from .limits import Limits
from .server import serve
from .source import ModelSource

__all__ = ["Dialect", "Limits", "ModelSource", "OPENAI", "create_app", "serve"]
