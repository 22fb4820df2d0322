"""Reads tool calls as they stream: the name as soon as it is known, then the arguments, raw."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto

from .json_value import JsonValue
from .tags import CallTag

NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}\Z")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_FENCE = re.compile(r"```(?:json)?\s*\Z")


class _Malformed(Exception):
    """What was read is not a call."""


@dataclass(frozen=True, slots=True)
class CallStarted:
    name: str
    call_id: str | None


@dataclass(frozen=True, slots=True)
class Arguments:
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """``whole``: the arguments are complete."""

    whole: bool


@dataclass(frozen=True, slots=True)
class NotCall:
    """Text inside the tags that is no call."""

    text: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """The calls are over without a closing tag; this text belongs to the answer."""

    text: str


CallPart = CallStarted | Arguments | CallEnded | NotCall | Leftover


class _At(Enum):
    HEAD = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    COMMA = auto()
    NAMED = auto()
    DONE = auto()


class CallReader:
    """One call. `feed` stops at its end, or where it turns out to be none (``broken``)."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.call_id: str | None = None
        self.complete = False
        self.broken = False
        self.saw_arguments = False
        self.extra: list[str] = []
        self._read: list[str] = []
        self._new: list[str] = []
        self._at = _At.HEAD
        self._head = ""
        self._key = ""
        self._text: list[str] = []
        self._value = JsonValue()

    @property
    def in_string(self) -> bool:
        return self._value.in_string

    @property
    def raw(self) -> str:
        """All that was read."""
        return "".join(self._read)

    def take(self) -> str:
        """The argument text since the last time."""
        new, self._new = "".join(self._new), []
        return new

    def feed(self, text: str) -> str:
        """Reads; returns what lies behind the call's end, or from where it is no call."""
        i = 0
        try:
            while i < len(text) and not self.complete:
                j = self._step(text, i)
                self._read.append(text[i:j])
                i = j
        except _Malformed:
            self.broken = True
        return text[i:]

    def separator(self, mark: str) -> bool:
        """A marker beside the name: `function<｜tool▁sep｜>NAME`, or `NAME[ARGS]`. False where none is possible."""
        if self._at is not _At.HEAD:
            return False
        self._head = "" if self._head.strip() == "function" else self._head + "\n"
        self._read.append(mark)
        return True

    def _step(self, text: str, i: int) -> int:
        char = text[i]
        match self._at:
            case _At.HEAD:
                return self._read_head(char, i)
            case _At.NAMED:
                return self._read_named(text, i)
            case _At.KEY | _At.VALUE if self._text:
                return self._read_value(text, i)
            case _ if char.isspace():
                return i + 1
            case _At.KEY | _At.VALUE:
                return self._begin_value(text, i)
            case _:
                return self._punctuation(char, i)

    def _begin_value(self, text: str, i: int) -> int:
        if self._at is _At.KEY and text[i] == "}":
            return self._finish(i + 1)
        if self._at is _At.KEY and text[i] != '"':
            raise _Malformed
        return self._read_value(text, i)

    def _punctuation(self, char: str, i: int) -> int:
        """What is between keys and values: `:` before a value, `,` before a key, `}` at the end."""
        match self._at, char:
            case _At.COLON, ":":
                self._at, self._text, self._value = _At.VALUE, [], JsonValue()
            case _At.COMMA, ",":
                self._at, self._text, self._value = _At.KEY, [], JsonValue()
            case _At.COMMA, "}":
                return self._finish(i + 1)
            case _:
                raise _Malformed
        return i + 1

    def _read_head(self, char: str, i: int) -> int:
        if char == "{" and not self._head.strip():
            self._at, self._value = _At.KEY, JsonValue()
        elif char == "{":
            self.name = named(self._head)
            self.saw_arguments, self._at = True, _At.NAMED
            return i
        else:
            self._head += char
            if len(self._head) > 256:
                raise _Malformed
        return i + 1

    def _read_value(self, text: str, i: int) -> int:
        """A key, or a top-level value; the arguments pass through as they come, when they are no string."""
        j = self._value.feed(text, i)
        part = text[i:j]
        self._text.append(part)
        if self._at is _At.VALUE and self._key in _ARGUMENTS and self._text[0][0] != '"':
            self.saw_arguments = True
            self._new.append(part)
        if self._value.done:
            self._end_value("".join(self._text))
        return j

    def _end_value(self, value: str) -> None:
        if self._at is _At.KEY:
            self._key, self._at = str(_loads(value)), _At.COLON
            return
        self._at = _At.COMMA
        if self._key == "name":
            name = _loads(value)
            if not isinstance(name, str) or not NAME.match(name):
                raise _Malformed
            self.name = name
        elif self._key == "id":
            id = _loads(value)
            self.call_id = id if isinstance(id, str) else None
        elif self._key in _ARGUMENTS and value[0] == '"':
            self.saw_arguments = True
            self._new.append(str(_loads(value)))
        elif self._key not in (*_ARGUMENTS, "type"):
            self.extra.append(f'"{self._key}": {value}')

    def _read_named(self, text: str, i: int) -> int:
        j = self._value.feed(text, i)
        self._new.append(text[i:j])
        if self._value.done:
            self.complete, self._at = True, _At.DONE
        return j

    def _finish(self, i: int) -> int:
        if self.name is None:
            raise _Malformed
        self.complete, self._at = True, _At.DONE
        return i


def named(head: str) -> str:
    """The name before the arguments, without the fence of a code block. Raises `_Malformed`."""
    name = _FENCE.sub("", head).strip().removesuffix(">").strip()
    if not NAME.match(name):
        raise _Malformed
    return name


def _loads(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise _Malformed from None


class CallsReader:
    """The calls behind one opening tag: one, a list, or several one after the other."""

    def __init__(self, tag: CallTag) -> None:
        self._tag = tag
        self._call: CallReader | None = None
        self._fresh = True
        self._listed = False
        self._started = False
        self._has_arguments = False
        self._broken = False

    @property
    def in_string(self) -> bool:
        """Inside a JSON string, where a tag that is spelled out is text."""
        return self._call is not None and self._call.in_string

    def feed(self, text: str) -> list[CallPart]:
        if self._broken:
            return [NotCall(text)]
        parts: list[CallPart] = []
        while text:
            text = self._between(text, parts) if self._call is None else self._advance(self._call, text, parts)
        return parts

    def separator(self, mark: str) -> list[CallPart]:
        if self._call is None and self._fresh:
            self._call, self._fresh = CallReader(), False
        return [] if self._call is not None and self._call.separator(mark) else [NotCall(mark)]

    def close(self) -> list[CallPart]:
        """A closing tag, or the reply's end."""
        call, self._call = self._call, None
        if call is None:
            return []
        if self._started:
            return [CallEnded(whole=False)]
        return [self._set_aside(call.raw)] if call.raw.strip() else []

    def _between(self, text: str, parts: list[CallPart]) -> str:
        """Before the first call and after each: a list's brackets and commas, `;`, blanks and a code fence's end."""
        rest = text.lstrip(" \t\r\n`" if not self._fresh else None)
        if not rest:
            return ""
        if self._fresh and rest[0] == "[" and not self._listed:
            self._listed = True
            return rest[1:]
        if self._listed and rest[0] in ",]" and not self._fresh:
            self._fresh, self._listed = rest[0] == ",", rest[0] == ","
            return rest[1:]
        if self._fresh or (not self._tag.close and rest[0] in ";{"):
            self._call, self._fresh, self._started, self._has_arguments = CallReader(), False, False, False
            return rest.lstrip(";")
        parts.append(NotCall(rest) if self._tag.close else Leftover(rest))
        return ""

    def _advance(self, call: CallReader, text: str, parts: list[CallPart]) -> str:
        rest = call.feed(text)
        bare = self._tag.style == "bare"
        if call.name is not None and (call.saw_arguments or (call.complete and not bare)):
            self._emit(call, parts)
        if call.broken or (call.complete and not self._started):
            self._call, self._broken = None, True
            parts += [CallEnded(whole=False), NotCall(rest)] if self._started else [self._set_aside(call.raw + rest)]
            return ""
        if call.complete:
            self._call = None
            parts += [CallEnded(whole=True)] if self._has_arguments else [Arguments("{}"), CallEnded(whole=True)]
            parts += [NotCall(", ".join(call.extra))] if call.extra else []
        return rest

    def _emit(self, call: CallReader, parts: list[CallPart]) -> None:
        if not self._started:
            self._started = True
            parts.append(CallStarted(call.name or "", call.call_id))
        new = call.take()
        if new:
            self._has_arguments = True
            parts.append(Arguments(new))

    def _set_aside(self, text: str) -> CallPart:
        """JSON that is no call is the answer, where calls have no tag; otherwise it is set aside."""
        return Leftover(text) if self._tag.style == "bare" else NotCall(text)
