"""HTTP: the APIs that people already use, and the road on which others can add theirs."""

from antiphon.config import Limits
from antiphon.http.error_shapes import ApiError, ErrorShape
from antiphon.http.gate.keys import Key, Keyring, Principal, Scope
from antiphon.wire.dialect import OPENAI, Dialect

from .app import create_app
from .context import Context
from .post import Post, PostRoute
from .server.server import serve
from .settings import AppSettings
from .source import ModelSource
from .wires import Wire, load_wires

__all__ = [
    "ApiError",
    "AppSettings",
    "Context",
    "Dialect",
    "ErrorShape",
    "Key",
    "Keyring",
    "Limits",
    "ModelSource",
    "OPENAI",
    "Post",
    "PostRoute",
    "Principal",
    "Scope",
    "Wire",
    "create_app",
    "load_wires",
    "serve",
]
