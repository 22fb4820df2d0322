"""What a rule of the linter is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from antiphon.errors import Position

from .linted_text import LintedText


class Severity(StrEnum):
    """How grave a finding is; ``off``: it is not reported."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: ``text`` in place of the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What a rule finds: where it begins and ends, what is wrong, what to do, and the change that mends it.

    ``rule`` is the rule's name, ``code`` the specification's code where it has one.
    """

    rule: str
    level: Severity
    message: str
    start: Position
    end: Position
    code: str | None = None
    hint: str | None = None
    fix: Edit | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """What a check found, by its offsets in the text."""

    start: int
    end: int
    message: str
    hint: str | None = None


Fix = Callable[[LintedText, int], Edit | None]
"""The change that mends what was found at an offset; None where no change is certain to be meant."""


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule: its name, what it requires, and an example that breaks it and one that keeps it.

    A rule of our own has a ``check``; one of the specification has none, since the reader finds where it is broken.
    """

    name: str
    what: str
    bad: str
    good: str
    fix: Fix | None = None
    level: Severity = Severity.ERROR
    check: Callable[[LintedText], Iterator[Spot]] | None = None
    flags: tuple[str, ...] = ()
    """What the examples need: ``harmony``, the rules of HIP-1."""
