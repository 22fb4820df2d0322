"""The table ``[dialect]``: what the plain routes speak."""

from __future__ import annotations

from typing import Literal

import msgspec


class DialectConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``name`` is what the plain routes speak; ``strict`` restricts every dialect to the letter of its document.

    The next two are MindIE's ``maxSeqLen`` and ``maxIterTimes``, in tokens; ``endpoint_mode`` and whether its
    endpoints stream where a request does not say (None: where ``strict``) are Databricks'.
    """

    name: Literal["openai", "databricks", "mindie", "lmdeploy"] = "openai"
    strict: bool = False
    max_seq_len: int = 2560
    max_iter_times: int = 512
    endpoint_mode: Literal["any", "pay_per_token", "provisioned"] = "any"
    endpoint_streams: bool | None = None
