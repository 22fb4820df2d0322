"""The table ``[traces]``."""

from __future__ import annotations

import msgspec


class TracesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``endpoint`` is the OTLP/HTTP address of an OpenTelemetry collector; empty: no spans are made."""

    endpoint: str = ""
    service: str = "antiphon"
