"""Reads a frame's head, whatever stands in it (§6, §15; A-O02, A-O05 … A-O10, A-O52)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from antiphon.conversation import Channel, Role
from antiphon.tokens import Control, Piece, spell, well_formed

from .finding import Problem
from .head import ATTRIBUTES, INTENTS, Head, ToolNames, head_pieces
from .spelling import CHANNEL, CONSTRAIN, VALUE, decode_value

_WORD = re.compile(r"[^ \t]+")
_TOOL_AUTHOR = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\Z")
_CONTROL_CHARACTERS = "".join(map(chr, range(33)))
_ROLES = {role.value: role for role in Role}
_CHANNELS = frozenset(Channel)


def read_head(parts: Sequence[Piece], tools: ToolNames) -> Head:
    """Reads a head; never fails: what is wrong stands in its ``problems``, and the rest is the best reading."""
    return _HeadReader(tools).read(parts)


class _HeadReader:
    def __init__(self, tools: ToolNames) -> None:
        self._tools = tools
        self._head = Head()
        self._values: dict[str, str] = {}
        self._seen: set[str] = set()

    def read(self, parts: Sequence[Piece]) -> Head:
        head, offset, section = self._head, 0, START_SECTION
        sections: set[Control] = set()
        for part in parts:
            if isinstance(part, Control):
                section = part
                self._enter(part, sections, offset)
            elif section is START_SECTION:
                self._start(part, offset)
            elif section is CHANNEL:
                self._channel(part, offset)
            else:
                self._constrain(part, offset)
            offset += len(part.spelling) if isinstance(part, Control) else len(part)
        head.length = offset
        if not parts or isinstance(parts[0], Control):
            self._problem(0, "the frame has no role")
        for control in sections:
            if (head.channel is None) if control is CHANNEL else not head.constrained:
                self._problem(offset, f"nothing follows {control}")
        self._settle(offset)
        head.canonical = not head.problems and self._is_canonical(parts)
        return head

    def _problem(self, offset: int, message: str, hint: str | None = None) -> None:
        self._head.problems.append(Problem(offset, message, hint))

    def _enter(self, control: Control, sections: set[Control], offset: int) -> None:
        if control in sections:
            self._problem(offset, f"{control} stands twice in one head", "Each message has exactly one channel (§5).")
        elif control is CHANNEL and CONSTRAIN in sections:
            self._problem(offset, "<|channel|> stands after <|constrain|>", "The channel comes first (§6).")
        sections.add(control)

    def _start(self, text: str, base: int) -> None:
        words = list(_WORD.finditer(text))
        if not words or words[0].start():
            self._problem(base, "the frame has no role", "A role follows <|start|> at once.")
        if not words:
            return
        self._seen.clear()
        for word in words[1:]:
            self._attribute(word.group(), base + word.start(), ATTRIBUTES)
        self._role(words[0].group(), base + words[0].start())

    def _role(self, word: str, at: int) -> None:
        head = self._head
        head.author = word
        head.places["role"] = at
        known = _ROLES.get(word.strip(_CONTROL_CHARACTERS))
        if known is not None:
            head.role = known
            if word != known:
                self._problem(at, f"{word!r} is no role", "Only blanks and tabs may follow a role.")
            return
        head.role, head.name = Role.TOOL, well_formed(word)
        if not _TOOL_AUTHOR.match(word) or not (self._tools.knows(word) or "to" in self._values):
            head.is_unknown = True
            self._problem(
                at, f"unknown role {word!r}", "system, developer, user, assistant, tool, or a tool's qualified name."
            )

    def _channel(self, text: str, base: int) -> None:
        words = list(_WORD.finditer(text))
        if not words:
            return
        self._seen.clear()
        at = base + words[0].start()
        channel = self._value(words[0].group(), at)
        if words[0].start():
            self._problem(base, "a blank stands between <|channel|> and the channel")
        if self._head.channel is None:
            self._head.channel = channel or None
            self._head.places["channel"] = at
            if channel not in _CHANNELS:
                self._problem(at, f"unknown channel {channel!r}", "analysis, commentary or final.")
        for word in words[1:]:
            self._attribute(word.group(), base + word.start(), ("to", "intent", "content_type"))

    def _constrain(self, text: str, base: int) -> None:
        words = list(_WORD.finditer(text))
        if not words:
            return
        at = base + words[0].start()
        if not self._head.constrained:
            self._head.content_type = self._value(words[0].group(), at) or None
            self._head.constrained = self._head.content_type is not None
            self._head.places["constrain"] = at
        for word in words[1:]:
            self._problem(base + word.start(), f"{word.group()!r} follows the constrained type")
            self._attribute(word.group(), base + word.start(), ATTRIBUTES)

    def _attribute(self, word: str, at: int, allowed: Sequence[str]) -> None:
        key, equals, raw = word.partition("=")
        if not equals or key not in ATTRIBUTES:
            hint = "Attributes are to, call_id, name, intent and content_type; a blank in a value is written %20."
            return self._problem(at, f"{word!r} is no attribute of a frame", hint)
        if key not in allowed:
            self._problem(at, f"{key}= belongs into the start section")
        if key in self._seen:
            return self._problem(at, f"{key}= stands twice")
        self._seen.add(key)
        value = self._value(raw, at + len(key) + 1)
        if key not in self._values:
            self._values[key] = value
            self._head.places[key] = at
        elif self._values[key] != value:
            self._problem(at, f"{key}= has two values, {self._values[key]!r} and {value!r}")
        return None

    def _value(self, raw: str, at: int) -> str:
        legal = VALUE.match(raw)
        end = legal.end() if legal else 0
        value = decode_value(raw)
        if raw and end == len(raw) and value is not None:
            return value
        hint = 'A value is visible ASCII without < > | "; other characters are percent-encoded.'
        self._problem(at + end, f"{raw!r} is no value of an attribute" if raw else "the value is empty", hint)
        return well_formed(raw if value is None else value).strip(_CONTROL_CHARACTERS)

    def _settle(self, end: int) -> None:
        """Attributes become fields; the rules that need the whole head."""
        head, values, places = self._head, self._values, self._head.places
        head.recipient = values.get("to") or None
        head.call_id = values.get("call_id") or None
        head.intent = values.get("intent") or None
        name = values.get("name") or None
        if head.is_legacy_reply:
            if name is not None and self._tools.qualify(name) != head.name:
                self._problem(places["name"], f"the reply of {head.name!r} is named {name!r}")
        elif head.role is Role.TOOL:
            head.name = self._tools.qualify(name) if name else None
            if name is None:
                self._problem(end, "a tool's reply has no name=", "Write tool name=functions.x (§6).")
        else:
            head.name = name
        if head.recipient not in (None, "assistant") and not self._tools.knows(head.recipient or ""):
            self._problem(
                places["to"], f"unknown recipient {head.recipient!r}",
                "assistant, functions.x, browser.x, python, or a namespace that the header declares.",
            )  # fmt: skip
        if head.intent is not None and head.intent not in INTENTS:
            self._problem(places["intent"], f"unknown intent {head.intent!r}", "preamble, status or debug.")
        content_type = values.get("content_type") or None
        if not head.constrained:
            head.content_type = content_type
        elif content_type is not None and content_type != head.content_type:
            self._problem(places["content_type"], f"content_type={content_type} is not what <|constrain|> says")

    def _is_canonical(self, parts: Sequence[Piece]) -> bool:
        return spell(list(head_pieces(self._head.message()))) == spell(list(parts))


START_SECTION = Control("")
"""Stands for the section before any control of a head."""
