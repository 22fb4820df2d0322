"""HTTP: the APIs that people already use."""

from .app import create_app
from .dialect import OPENAI, Dialect
from .keys import Key, Keyring, Principal, Scope
from .limits import Limits
from .server import serve
from .source import ModelSource

__all__ = ["Dialect", "Key", "Keyring", "Limits", "ModelSource", "OPENAI", "Principal", "Scope", "create_app", "serve"]
