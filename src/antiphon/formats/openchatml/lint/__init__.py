"""The linter: named rules with levels, what they find in a transcript, and fixes."""

from .lint import RULES, edited, findings, mended
from .rule import Diagnostic, Edit, LintRule, Severity

__all__ = ["RULES", "Diagnostic", "Edit", "Severity", "LintRule", "edited", "findings", "mended"]
