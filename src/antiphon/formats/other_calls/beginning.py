"""Tells, while a text comes, whether it may be a call in some form, and whether it has begun one."""

from __future__ import annotations

import re
from enum import Enum, auto

from antiphon.formats.replies.json_text import JsonScan

from .offered import DOUBLED_END, FENCES, FUNCTION_MARKS, JSON_FENCES, KEYS, MARKS, NAME_KEYS, PLAN, Mark, Offered

OPENERS = re.compile(r"[`{\[<]|A(?=c|\Z)")
"""The characters with which a call in another form begins."""
_MOST_UNKNOWN = 1024
"""Characters of an object that wait for the name of a tool."""
_FENCE = re.compile(r"`{1,3}|```[A-Za-z_0-9]*[ \t]*|```([A-Za-z_0-9]*)[ \t]*\n\s*(.*)", re.DOTALL)
_OBJECT = re.compile(r"\[?\s*\{{1,2}\s*(?:([\"'])([^\"']*)(?:(\1)\s*(?::\s*(.*))?)?)?", re.DOTALL)
_LISTED = re.compile(r"\[\s*([A-Za-z_][\w.-]*)?(\()?")
_STRING = re.compile(r"([\"'])([^\"']*)(\1)?")
_NAME = re.compile(r"[\"'](?:" + "|".join(NAME_KEYS) + r")[\"']\s*:\s*[\"']([^\"']*)[\"']")
_BETWEEN = re.compile(r"[\s,;\]]*")
_TAG = re.compile(r"<([a-z_]+)[ =](?:name=|(?=n?a?m?e?\Z))?[\"']?([\w.-]*)[\"']?\s*(>)?")
_PLANNED = re.compile(r"[ \t]*`?([\w.-]*)`?(?:\(\)?)?[ \t]*(?:\n\s*(.*))?", re.DOTALL)
_INPUT = "Action Input:"


class Begins(Enum):
    """The kind of a text that may be a call."""

    NO = auto()
    UNDECIDED = auto()
    YES = auto()
    """It has begun a call of an offered tool; text behind that call may still make it an example."""


class Candidate:
    """A text that begins as a call may, fed in pieces."""

    def __init__(self, offered: Offered) -> None:
        self.text = ""
        self.begun = False
        self.is_marked = False
        """It begins with marks of calls: words that mean nothing else."""
        self._offered = offered
        self._mark: Mark | None = None
        self._doubled = False
        self._scan: JsonScan | None = None
        self._scanned = 0
        self._ends = 0
        """Where the call, or the last of them, ends; 0: not yet."""

    @property
    def run(self) -> int:
        """Counts the characters at the beginning of a text without a call that begin none either."""
        fence = re.match(r"`+", self.text)
        return fence.end() if fence is not None else 1

    def feed(self, text: str) -> Begins:
        """Adds text; returns what the whole is."""
        self.text += text
        if not self.begun:
            found = self._beginning(self.text)
            if found is not Begins.YES:
                return found
            self.begun = True
            self._scanned = self._start()
        return Begins.NO if self._goes_on_as_text() else Begins.YES

    def _beginning(self, text: str) -> Begins:
        match text[0]:
            case "`":
                return self._fence(text)
            case "<" | "[" if (found := self._marks(text)) is not Begins.NO:
                return found
            case "{" | "[":
                return self._json(text)
            case "A":
                return self._plan(text)
            case _:
                return Begins.NO

    def _fence(self, text: str) -> Begins:
        found = _FENCE.fullmatch(text)
        if found is None:
            return Begins.NO
        if found.group(1) is None:
            language = text.lstrip("`").strip().lower()
            return Begins.UNDECIDED if any(known.startswith(language) for known in FENCES) else Begins.NO
        language, inside = found.group(1).lower(), found.group(2)
        if language not in FENCES:
            return Begins.NO
        if not inside:
            return Begins.UNDECIDED
        if language not in JSON_FENCES:
            self.is_marked = True
            self._mark = Mark("```" + found.group(1), "```")
            return Begins.YES
        return self._beginning(inside) if inside[0] in "{[<" else Begins.NO

    def _marks(self, text: str) -> Begins:
        mark = next((mark for mark in MARKS if text.startswith(mark.open)), None)
        if mark is None and text.startswith(FUNCTION_MARKS):
            return self._tag(text)
        if mark is not None:
            self._mark, self.is_marked = mark, True
            return Begins.YES
        begun = any(open.startswith(text) for open in (*(mark.open for mark in MARKS), *FUNCTION_MARKS))
        return Begins.UNDECIDED if begun else Begins.NO

    def _tag(self, text: str) -> Begins:
        """A tag with a tool's name in it."""
        found = _TAG.match(text)
        if found is None or (found.group(3) is None and found.end() < len(text)):
            return Begins.NO
        if found.group(3) is None:
            begun = self._offered.begins(found.group(2)) or "name=".startswith(found.group(2))
            return Begins.UNDECIDED if begun else Begins.NO
        if self._offered.named(found.group(2)) is None:
            return Begins.NO
        self._mark, self.is_marked = Mark(found.group(), f"</{found.group(1)}>"), True
        return Begins.YES

    def _plan(self, text: str) -> Begins:
        """Two lines of a plan: a tool, and its arguments."""
        found = _PLANNED.fullmatch(text[len(PLAN) :]) if text.startswith(PLAN) else None
        if found is None:
            return Begins.UNDECIDED if PLAN.startswith(text) else Begins.NO
        name, input = found.groups()
        if input is None:
            return Begins.UNDECIDED if self._offered.begins(name) else Begins.NO
        if self._offered.named(name) is None:
            return Begins.NO
        given = input.removeprefix(_INPUT).lstrip() if input.startswith(_INPUT) else ""
        if given:
            return Begins.YES if given[0] == "{" else Begins.NO
        return Begins.UNDECIDED if _INPUT.startswith(input.rstrip()) else Begins.NO

    def _json(self, text: str) -> Begins:
        """An object with the keys of a call, a list of such, or of calls in Python's spelling."""
        found = _OBJECT.match(text)
        if found is None:
            return self._listed(text)
        key, value = found.group(2) or "", found.group(4)
        if value is None:
            known = key in KEYS if found.group(3) else any(known.startswith(key) for known in KEYS)
            return Begins.UNDECIDED if known and found.end() == len(text) else Begins.NO
        if key not in KEYS or len(text) > _MOST_UNKNOWN:
            return Begins.NO
        if key in NAME_KEYS and not value.startswith("{"):
            return self._named(value)
        named = _NAME.search(text)
        if named is None:
            return Begins.UNDECIDED
        return Begins.YES if self._offered.named(named.group(1)) is not None else Begins.NO

    def _named(self, value: str) -> Begins:
        if not value:
            return Begins.UNDECIDED
        found = _STRING.match(value)
        if found is None:
            return Begins.NO
        if found.group(3):
            return Begins.YES if self._offered.named(found.group(2)) is not None else Begins.NO
        return Begins.UNDECIDED if self._offered.begins(found.group(2)) else Begins.NO

    def _listed(self, text: str) -> Begins:
        found = _LISTED.match(text)
        if found is None or (found.end() < len(text) and not found.group(2)):
            return Begins.NO
        name = found.group(1) or ""
        if found.group(2):
            if self._offered.named(name) is None:
                return Begins.NO
            self._mark = Mark("[", ")]")
            return Begins.YES
        return Begins.UNDECIDED if self._offered.begins(name) else Begins.NO

    def _start(self) -> int:
        """Where the value begins, or what the marks stand round."""
        if self._mark is not None:
            return len(self._mark.open)
        at = next(i for i, char in enumerate(self.text) if char in "{[")
        self._doubled = self.text.startswith("{{", at)
        return at + self._doubled

    def _goes_on_as_text(self) -> bool:
        """Whether text stands behind the call that is no call."""
        while not self._ends:
            if not self._to_the_end():
                return False
        behind = self.text[self._ends :]
        if self._doubled:
            behind = DOUBLED_END.sub("", behind, count=1)
        between = _BETWEEN.match(behind)
        rest = behind[between.end() :] if between is not None else behind
        if self._mark is None and self.text.startswith("`") and (rest.startswith("```") or "```".startswith(rest)):
            rest = rest[3:].lstrip()
        if not rest:
            return False
        if rest[0] in "{[<`A":
            other = Candidate(self._offered)
            return other.feed(rest) is Begins.NO
        return True

    def _to_the_end(self) -> bool:
        """Looks for the end of the value or of the marks; whether it is there."""
        if self._mark is not None:
            at = self.text.find(self._mark.close, self._scanned) if self._mark.close else -1
            self._ends = at + len(self._mark.close) if at >= 0 else 0
            return at >= 0
        self._scan = self._scan or JsonScan()
        self._scanned = self._scan.feed(self.text, self._scanned)
        if self._scan.done:
            self._ends = self._scanned
        return self._scan.done
