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
_FENCE = re.compile(r"`{1,2}|```([A-Za-z_0-9]*)[ \t]*(?:\n\s*(.*))?", re.DOTALL)
_OBJECT = re.compile(r"\[?\s*\{{1,2}\s*(?:([\"'])([^\"']*)(?:(\1)\s*(?::\s*(.*))?)?)?", re.DOTALL)
_NAME = re.compile(r"[\"'](?:" + "|".join(NAME_KEYS) + r")[\"']\s*:\s*[\"']([^\"']*)[\"']")
_BETWEEN = re.compile(r"[\s,;\]]*")
# A name, as far as it came, and what is behind a whole one.
_TAG = re.compile(r"<([a-z_]+)[ =](?:name=|(?=n?a?m?e?\Z))?[\"']?(?P<name>[\w.-]*)[\"']?\s*(?P<behind>>)?")
_LISTED = re.compile(r"\[\s*(?P<name>(?:[A-Za-z_][\w.-]*)?)(?P<behind>\()?")
_STRING = re.compile(r"([\"'])(?P<name>[^\"']*)(?P<behind>\1.*)?", re.DOTALL)
_PLANNED = re.compile(re.escape(PLAN) + r"[ \t]*`?(?P<name>[\w.-]*)`?(?:\(\)?)?[ \t]*(?P<behind>\n\s*(.*))?", re.DOTALL)
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
        self._scan = JsonScan()
        self._scanned = 0
        self._ends = 0
        """The end of the call, or of the last of them; 0: not yet."""

    @property
    def run(self) -> int:
        """Counts the characters at the beginning of a text without a call that begin none either."""
        return max(1, len(self.text) - len(self.text.lstrip("`")))

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
        language, inside = (found.group(1) or "").lower(), found.group(2)
        if inside is None:
            return Begins.UNDECIDED if any(known.startswith(language) for known in FENCES) else Begins.NO
        if language not in FENCES:
            return Begins.NO
        if not inside:
            return Begins.UNDECIDED
        if language not in JSON_FENCES:
            return self._marked("```" + found.group(1), "```")
        return self._beginning(inside) if inside[0] in "{[<" else Begins.NO

    def _marks(self, text: str) -> Begins:
        if (mark := next((mark for mark in MARKS if text.startswith(mark.open)), None)) is not None:
            return self._marked(mark.open, mark.close)
        if text.startswith(FUNCTION_MARKS):
            found = _TAG.match(text)
            begins = self._named(found, text)
            return begins if begins is not Begins.YES or found is None else self._marked(found[0], f"</{found[1]}>")
        begun = any(open.startswith(text) for open in (*(mark.open for mark in MARKS), *FUNCTION_MARKS))
        return Begins.UNDECIDED if begun else Begins.NO

    def _marked(self, open: str, close: str) -> Begins:
        self._mark, self.is_marked = Mark(open, close), True
        return Begins.YES

    def _named(self, found: re.Match[str] | None, text: str) -> Begins:
        """A name as far as it came, which is that of a tool where more of the form is behind it."""
        if found is None or (found.end() < len(text) and found["behind"] is None):
            return Begins.NO
        name = found["name"]
        if found["behind"] is not None:
            return Begins.YES if self._offered.named(name) is not None else Begins.NO
        return Begins.UNDECIDED if self._offered.begins(name) or "name=".startswith(name) else Begins.NO

    def _plan(self, text: str) -> Begins:
        """Two lines of a plan: a tool, and its arguments."""
        if PLAN.startswith(text):
            return Begins.UNDECIDED
        found = _PLANNED.fullmatch(text)
        begins = self._named(found, text)
        if found is None or begins is not Begins.YES:
            return begins
        input = found.group(3)
        given = input.removeprefix(_INPUT).lstrip() if input.startswith(_INPUT) else ""
        if given:
            return Begins.YES if given[0] == "{" else Begins.NO
        return Begins.UNDECIDED if _INPUT.startswith(input.rstrip()) else Begins.NO

    def _json(self, text: str) -> Begins:
        """An object with the keys of a call, a list of such, or of calls in Python's spelling."""
        found = _OBJECT.match(text)
        if found is None:
            begins = self._named(_LISTED.match(text), text)
            self._mark = Mark("[", ")]") if begins is Begins.YES else None
            return begins
        key, value = found.group(2) or "", found.group(4)
        if value is None:
            known = key in KEYS if found.group(3) else any(known.startswith(key) for known in KEYS)
            return Begins.UNDECIDED if known and found.end() == len(text) else Begins.NO
        if key not in KEYS or len(text) > _MOST_UNKNOWN:
            return Begins.NO
        if key in NAME_KEYS and not value.startswith("{"):
            return self._named(_STRING.match(value), value) if value else Begins.UNDECIDED
        named = _NAME.search(text)
        if named is None:
            return Begins.UNDECIDED
        return Begins.YES if self._offered.named(named.group(1)) is not None else Begins.NO

    def _start(self) -> int:
        """The place at which the value, or the text between the marks, begins."""
        if self._mark is not None:
            return len(self._mark.open)
        at = next(i for i, char in enumerate(self.text) if char in "{[")
        self._doubled = self.text.startswith("{{", at)
        return at + self._doubled

    def _goes_on_as_text(self) -> bool:
        """Whether text stands behind the call that is no call."""
        if not self._ends and not self._to_the_end():
            return False
        behind = self.text[self._ends :]
        if self._doubled:
            behind = DOUBLED_END.sub("", behind, count=1)
        rest = _BETWEEN.sub("", behind, count=1)
        if self._mark is None and self.text.startswith("`") and (rest.startswith("```") or "```".startswith(rest)):
            rest = rest[3:].lstrip()
        return bool(rest) and (rest[0] not in "{[<`A" or Candidate(self._offered).feed(rest) is Begins.NO)

    def _to_the_end(self) -> bool:
        """Looks for the end of the value or of the marks; whether it is there."""
        if self._mark is not None:
            at = self.text.find(self._mark.close, self._scanned) if self._mark.close else -1
            self._ends = at + len(self._mark.close) if at >= 0 else 0
            return at >= 0
        self._scanned = self._scan.feed(self.text, self._scanned)
        self._ends = self._scanned if self._scan.done else 0
        return self._scan.done
