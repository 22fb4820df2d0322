"""An engine's output for one choice: ids → pieces → events."""

from .choice import ChoiceReader

__all__ = ["ChoiceReader"]
