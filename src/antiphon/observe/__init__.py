"""Filters over the events of turns: time limits, metrics, traces. Never a word of what was said."""

from .metrics import Metrics
from .traces import Tracing
from .turns import TurnWatcher, watched

__all__ = ["Metrics", "Tracing", "TurnWatcher", "watched"]
