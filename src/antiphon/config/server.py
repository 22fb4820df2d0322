"""The table ``[server]``. Sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .units import SecondsOrNone


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``drain``, in seconds, is what running requests get when the server stops.

    ``keys`` is a file of `antiphon keys`; where it exists, every request needs one of its keys. ``without_keys`` lets
    a server listen beyond this machine though it has none. ``public_metrics`` shows ``/metrics`` to all, and
    ``expose_reasoning`` what models think. ``tls_cert`` and
    ``tls_key`` are PEM files. ``origins``: the web pages, between commas, that may call it from a browser besides its
    own; ``*`` stands for a host, the beginning of one, a port, or for every page.
    ``hosts``: the names, between commas, by which a server without keys may be called besides those of this machine.
    ``wires``: further APIs, between commas, by the names that installed packages give them. ``ollama`` listens at
    127.0.0.1 on ``ollama_port`` too, where the clients of Ollama look for it. ``gather``: seconds between two writes of
    one stream, or up to a quarter more, so that streams are written together; what is sampled in between is sent as
    one. ``workers`` processes answer at the one port; they share the embedded engines, and the limits hold over all of
    them. ``playground``: browsers get a page at ``/`` and ``/playground``. ``docs``: the documentation under ``/docs``.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080
    drain: SecondsOrNone = 30.0
    keys: str = ""
    without_keys: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    origins: str = ""
    hosts: str = ""
    public_metrics: bool = False
    expose_reasoning: bool = False
    wires: str = ""
    ollama: bool = False
    ollama_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 11434
    gather: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01
    workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    playground: bool = True
    docs: bool = True
