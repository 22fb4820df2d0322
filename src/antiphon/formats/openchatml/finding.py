"""The findings of a reader: a fault, its place, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from antiphon.errors import ParseError, Position

E_HEADER = "E-PARSE-HEADER"
E_CHANNEL_MISSING = "E-PARSE-CHANNEL-MISSING"
E_CONSTRAINT = "E-BODY-CONSTRAINT-VIOLATION"
E_CALL = "E-CALL-SCHEMA"
E_TIMEOUT = "E-TOOL-TIMEOUT"
E_CANCELLED = "E-TOOL-CANCELLED"
E_TRUNCATED = "E-STREAM-TRUNCATED"
E_VISIBILITY = "E-PERM-VISIBILITY"

SUMMARIES = {
    E_HEADER: "A message could not be read.",
    E_CHANNEL_MISSING: "A message did not say which channel it belongs to.",
    E_CONSTRAINT: "A message was not in the form that it promised.",
    E_CALL: "A tool was called in a way that it does not understand.",
    E_TIMEOUT: "A tool took too long.",
    E_CANCELLED: "A tool was stopped.",
    E_TRUNCATED: "The answer broke off before its end.",
    E_VISIBILITY: "This part of the conversation is not shown.",
}
"""§14: every code of the specification, with a summary that is safe to show to an end user."""

RuleName = Literal[
    "other-form", "header-missing", "header-endless", "header-version-missing", "header-version", "header-form",
    "header-yaml", "text-outside", "head-endless", "control-in-head", "control-in-body", "body-not-utf8", "truncated",
    "turn-unfinished", "role-missing", "role-form", "role-unknown", "channel-unknown", "channel-form", "section-twice",
    "section-empty", "recipient-unknown", "intent-unknown", "attribute-unknown", "attribute-place", "attribute-twice",
    "attribute-conflict", "attribute-value", "call-id-missing", "call-id-twice", "call-channel", "call-footer",
    "call-arguments", "reply-name-missing", "call-unmarked", "call-deadline", "calls-mixed", "tool-undeclared",
    "declaration-unread", "reply-id-missing", "reply-to-nothing", "reply-twice", "reply-of-another",
    "reply-envelope",
    "plan-unmarked", "body-type", "reflection-outside", "return-footer", "channel-missing", "capability", "version-1",
    "other",
]  # fmt: skip
"""The rules that readers find broken; `rules` has the table of them."""


class Severity(StrEnum):
    """How grave a finding is; ``off``: it is not reported."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation from the specification.

    ``warning``: allowed, but doubtful. ``text`` is what a lenient reader skipped, so that nothing is lost.
    """

    code: str
    message: str
    position: Position
    hint: str | None = None
    warning: bool = False
    text: str = ""
    rule: RuleName = "other"

    def error(self) -> ParseError:
        return ParseError(self.message, code=self.code, position=self.position, hint=self.hint)

    def __str__(self) -> str:
        return f"{self.position}  {self.code}  {self.message}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding whose place is known only relative to the head or the body that it was found in."""

    offset: int
    message: str
    hint: str | None = None
    code: str = E_HEADER
    warning: bool = False
    rule: RuleName = "other"


LONGEST_WORD = 64
"""Characters of a word that is compared with those that are known."""


def nearest(word: str, known: Collection[str]) -> str | None:
    """The known word that ``word`` is a slip of the pen for; None when there is none, or when it is known."""
    if word in known or len(word) > LONGEST_WORD:
        return None
    small = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), small, n=1, cutoff=0.7)
    return small[close[0]] if close else None


def did_you_mean(word: str, known: Collection[str], otherwise: str) -> str:
    """A hint that begins with the known word nearest to ``word``, if one is near."""
    close = nearest(word, known)
    return f"Did you mean {close}? {otherwise}" if close else otherwise
