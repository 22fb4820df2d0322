"""Filters over the events of turns: time limits, metrics, traces. Never a word of what was said."""

from .metrics import Metrics
from .traces import Exported, Tracing
from .turns import TurnWatcher, watched

__all__ = ["Exported", "Metrics", "Tracing", "TurnWatcher", "watched"]
