"""The table ``[ray]``: what `antiphon.ray` deploys. Times in seconds."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .units import Count, CountOrNone, Seconds, SecondsOrNone

Share = Annotated[float, msgspec.Meta(ge=0)]
Requests = Annotated[float, msgspec.Meta(gt=0)]


class RayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``replicas`` answer requests, each with ``cpus``; up to ``max_replicas`` while each has more than ``ongoing``
    requests (0: always the same number). The keys with ``engine_`` say the same of each model's engine where it has
    replicas of its own (`antiphon.ray:two_tier`), and ``engine_gather`` how long these gather ids for one message.

    Replicas are added after ``scale_out_after`` and removed after ``scale_in_after``. One that is to leave may end what
    it does: turns take ``longest_turn`` at most, or ``limits.turn_timeout`` where that is set.
    """

    replicas: Count = 1
    max_replicas: CountOrNone = 0
    ongoing: Requests = 32.0
    cpus: Share = 1.0
    engine_replicas: Count = 1
    engine_max_replicas: CountOrNone = 0
    engine_ongoing: Requests = 8.0
    engine_cpus: Share = 1.0
    engine_gpus: Share = 0.0
    engine_gather: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.015
    scale_out_after: SecondsOrNone = 30.0
    scale_in_after: SecondsOrNone = 600.0
    longest_turn: Seconds = 600.0
