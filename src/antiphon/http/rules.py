"""What may change while a server runs."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.config import Limits


@dataclass(slots=True)
class Rules:
    """All contexts of one server share it, and read it anew for each request."""

    limits: Limits
    expose_reasoning: bool = False
    public_metrics: bool = False
