"""An engine's output for one choice: ids → pieces → events."""

from .channels import with_channels
from .choice import ChoiceReader

__all__ = ["ChoiceReader", "with_channels"]
