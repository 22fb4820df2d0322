"""Counts and records of a server: metrics, traces, logs. Never content."""

from .metering import Exported, RequestMeter, Tracing
from .metrics import Metrics

__all__ = ["Exported", "Metrics", "RequestMeter", "Tracing"]
