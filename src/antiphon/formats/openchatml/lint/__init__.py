"""The linter: named rules with levels, what they find in a transcript, and fixes."""

from antiphon.formats.openchatml.finding import Severity

from .lint import RULES, edited, findings, is_mended, mended
from .rule import Diagnostic, Edit

__all__ = ["RULES", "Diagnostic", "Edit", "Severity", "edited", "findings", "is_mended", "mended"]
