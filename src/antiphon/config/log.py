"""The table ``[log]``."""

from __future__ import annotations

from typing import Literal

import msgspec


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``access``: a line a request. ``file`` "" is standard error; one that was moved away is opened anew."""

    form: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = True
    file: str = ""
