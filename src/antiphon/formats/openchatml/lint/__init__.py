"""The linter: named rules with levels, what they find in a transcript, and fixes."""

from .lint import RULES, edited, findings, mended
from .rule import Diagnostic, Edit, Level, LintRule

__all__ = ["RULES", "Diagnostic", "Edit", "Level", "LintRule", "edited", "findings", "mended"]
