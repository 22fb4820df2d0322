"""What an engine says for one choice: ids → pieces → events."""

from .choice import ChoiceReader

__all__ = ["ChoiceReader"]
