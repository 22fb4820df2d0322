"""Settings that may change while a server runs."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.config import Limits, ServerConfig


@dataclass(slots=True)
class Rules:
    """All contexts of one server share it, and read it anew for each request.

    ``gather``: seconds between two writes of one stream.
    """

    limits: Limits
    expose_reasoning: bool = False
    public_metrics: bool = False
    gather: float = ServerConfig().gather
