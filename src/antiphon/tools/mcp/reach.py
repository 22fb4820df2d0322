"""How far a server's answers are trusted: one that the operator configured, or one that a client named."""

from __future__ import annotations

import msgspec

from antiphon.tools.network import Network

START_SECONDS = 30.0
LARGEST_BODY = 32 << 20
"""Bytes of a body that is no stream of events, and of one event."""
MAX_TOOLS = 256
MAX_LISTING = 2_000_000
"""Bytes of the names, descriptions and schemas of a server's tools."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """``public``: only public addresses are connected to, and ``networks``; else any.

    ``body``: bytes of a body, and of one event; ``stream``: of all events of one stream (0: any number). ``start``:
    seconds for connecting. ``tools``: how many of its tools are taken; ``listing``: bytes of their names, descriptions
    and schemas. ``checked``: results are compared with the schemas that the server gives of them. ``media``:
    they may have images.
    """

    public: bool = False
    networks: tuple[Network, ...] = ()
    body: int = LARGEST_BODY
    stream: int = 0
    start: float = START_SECONDS
    tools: int = MAX_TOOLS
    listing: int = MAX_LISTING
    checked: bool = True
    media: bool = True


OPERATOR = Reach()
"""A server of the configuration."""
