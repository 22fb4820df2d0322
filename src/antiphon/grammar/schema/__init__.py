"""JSON Schemas, made ready for the engine."""

from .clear import clear_of_controls
from .hold import HeldSchema, hold
from .lower import Relaxed

__all__ = ["HeldSchema", "Relaxed", "clear_of_controls", "hold"]
