"""What a server counts and writes down: metrics, traces, logs. Never content."""

from .metering import RequestMeter
from .metrics import Metrics
from .traces import Exported, Tracing

__all__ = ["Exported", "Metrics", "RequestMeter", "Tracing"]
