"""A tool's reply as a value (§8.3, A-O17): the recommended envelope, or any text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """``code`` may be one of the specification's (``E-TOOL-TIMEOUT`` …)."""

    message: str
    code: str | None = None
    retryable: bool | None = None
    details: Any = None


@dataclass(frozen=True, slots=True)
class ToolReply:
    """``error`` is set exactly when ``ok`` is False."""

    ok: bool
    content: Any = None
    error: ToolFailure | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


def read_tool_reply(text: str) -> ToolReply:
    """What a reply's body says; a body that is no envelope is content, and all went well (A-O17)."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ToolReply(True, text)
    if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
        return ToolReply(True, value)
    provenance = value.get("provenance")
    failure = None if value["ok"] else _failure(value.get("error"))
    return ToolReply(value["ok"], value.get("content"), failure, provenance if isinstance(provenance, dict) else {})


def _failure(error: Any) -> ToolFailure:
    """A bare string is the message."""
    if not isinstance(error, dict):
        return ToolFailure(error if isinstance(error, str) else "the tool failed")
    code, message, retryable = error.get("code"), error.get("message"), error.get("retryable")
    return ToolFailure(
        message if isinstance(message, str) else "the tool failed",
        code if isinstance(code, str) else None,
        retryable if isinstance(retryable, bool) else None,
        error.get("details"),
    )
