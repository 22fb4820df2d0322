"""JSON Schemas, made ready for the engine."""

from .hold import HeldSchema, hold
from .lower import Relaxed

__all__ = ["HeldSchema", "Relaxed", "hold"]
