"""HTTP: the APIs that people already use, and the interface by which others can add theirs."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from antiphon.config import Limits
    from antiphon.http.context import Context, ModelSource
    from antiphon.http.errors import ApiError, ErrorShape
    from antiphon.http.gate.keys import Key, Keyring, Principal, Scope
    from antiphon.http.post import Post, PostRoute
    from antiphon.http.server.server import serve
    from antiphon.wire.dialect import OPENAI, Dialect

    from .app import AppSettings, create_app
    from .wires import Wire, load_wires
else:  # an API's JSON is read without a server
    __getattr__ = exports(
        __name__,
        {
            ".config": "Limits",
            ".http.context": "Context ModelSource",
            ".http.errors": "ApiError ErrorShape",
            ".http.gate.keys": "Key Keyring Principal Scope",
            ".http.post": "Post PostRoute",
            ".http.server.server": "serve",
            ".wire.dialect": "OPENAI Dialect",
            "app": "AppSettings create_app",
            "wires": "Wire load_wires",
        },
    )

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
