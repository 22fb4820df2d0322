"""What a system or a developer message says when it is not plain text: values, which a format words in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .tools import ResponseFormat, ToolNamespace


class ReasoningEffort(StrEnum):
    """Resolution X-51: the seven words in use; a format maps them to the nearest that its model knows."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The channels that a model may speak on, and whether each message must name one."""

    valid: tuple[str, ...]
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemContent:
    """Harmony's system message (HAR-07, HAR-49). What is None is not written; ``tools`` maps a key to its namespace."""

    identity: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    start_date: str | None = None
    knowledge_cutoff: str | None = None
    channels: ChannelConfig | None = None
    tools: Mapping[str, ToolNamespace] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeveloperContent:
    """Harmony's developer message (HAR-08, HAR-59): instructions, the caller's tools, the form of the answer."""

    instructions: str | None = None
    tools: Mapping[str, ToolNamespace] | None = None
    response_format: ResponseFormat | None = None
