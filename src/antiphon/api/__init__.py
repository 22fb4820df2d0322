"""HTTP: the APIs that people already use."""

from antiphon.config import Limits
from antiphon.wire.dialect import OPENAI, Dialect

from .app import create_app
from .gate.keys import Key, Keyring, Principal, Scope
from .http.server import serve
from .source import ModelSource

__all__ = ["Dialect", "Key", "Keyring", "Limits", "ModelSource", "OPENAI", "Principal", "Scope", "create_app", "serve"]
