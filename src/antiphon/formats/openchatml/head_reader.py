"""Reads a frame's head, whatever is in it (§6, §15; A-O02, A-O05 … A-O10, A-O52)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from antiphon.conversation import FUNCTIONS, Channel, Role
from antiphon.tokens import Control, Piece, spell, well_formed

from .finding import Problem, RuleName, did_you_mean
from .head import ATTRIBUTES, INTENTS, Head, ToolNames, head_pieces
from .spelling import BY_SPELLING, CHANNEL, CONSTRAIN, PLAIN_VALUE, TOKEN, VALUE, decode_value

MAX_CACHED = 512
"""Heads that a `HeadReader` remembers before it starts over."""
START_SECTION = Control("")
"""Stands for the section before any control of a head."""

_WORD = re.compile(r"[^ \t]+")
_TOOL_AUTHOR = re.compile(rf"(?!{FUNCTIONS}\.[^.]*\.)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\Z")
"""A tool as the author of its reply (A-O06); §15 has no dot in the name of a function."""
_CONTROL_CHARACTERS = "".join(map(chr, range(33)))
_ROLES = {role.value: role for role in Role}
_CHANNELS = frozenset(Channel)
_VALUES = {"intent": "|".join(INTENTS)}
_CANONICAL = re.compile(
    f"(?P<role>{'|'.join(Role)})"
    + "".join(f"(?: {key}=(?P<{key}>{_VALUES.get(key, PLAIN_VALUE)}))?" for key in ATTRIBUTES)
    + rf"(?:{re.escape(CHANNEL.spelling)}(?P<channel>{'|'.join(Channel)}))?"
    + rf"(?:{re.escape(CONSTRAIN.spelling)}(?P<constrain>{PLAIN_VALUE}))?"
)
"""A head as `head_pieces` writes it, when no value needs an encoding."""
_PLACES = [(key, len(key) + 1 if key in ATTRIBUTES else 0) for key in _CANONICAL.groupindex]


class HeadReader:
    """Reads heads as text or as pieces. Heads repeat, so the latest are cached."""

    def __init__(self) -> None:
        self._tools = ToolNames()
        self._cache: dict[str | tuple[Piece, ...], Head] = {}

    def declare(self, tools: tuple[str, ...]) -> None:
        """Namespaces that the transcript's header names; they are known to the heads that follow."""
        self._tools = self._tools.declare(tools)
        self._cache.clear()

    def read_text(self, text: str) -> Head:
        """The head that a text spells, its controls too. A call id is no other head's, so its head is not stored."""
        cached = self._cache.get(text)
        if cached is not None:
            return cached
        head = read_canonical(text, self._tools) or self._read(split(text))
        return head if head.call_id is not None else self._store(text, head)

    def read_pieces(self, parts: tuple[Piece, ...]) -> Head:
        """The head that these pieces are."""
        return self._cache.get(parts) or self._store(parts, self._read(parts))

    def _read(self, parts: tuple[Piece, ...]) -> Head:
        return read_head(parts, self._tools)

    def _store(self, key: str | tuple[Piece, ...], head: Head) -> Head:
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[key] = head
        return head


def read_canonical(text: str, tools: ToolNames) -> Head | None:
    """Reads a head in canonical form and without problems as `read_head` does; None for any other.

    Half of a transcript's heads carry a call id of their own, so the cache does not have them. The pattern is made of
    the same roles, attributes and channels; whatever it cannot decide is left to `read_head`.
    """
    found = _CANONICAL.fullmatch(text)
    if found is None:
        return None
    author, to, call_id, name, intent, content_type, channel, constrain = found.groups()
    role = _ROLES[author]
    if not tools.addresses(to) or (content_type is not None and constrain is not None):
        return None
    if role is Role.TOOL and (name is None or tools.qualify(name) != name):
        return None
    return Head(
        role, author, name, to, channel, content_type if constrain is None else constrain, constrain is not None,
        call_id, intent, len(text), canonical=True,
    )  # fmt: skip


def places_of(head: Head, text: str) -> Mapping[str, int]:
    """The places of the head's parts in its text; few ask, so `read_canonical` does not look."""
    found = None if head.places else _CANONICAL.fullmatch(text)
    if found is None:
        return head.places
    return {key: found.start(key) - lead for key, lead in _PLACES if found[key] is not None}


def read_head(parts: Sequence[Piece], tools: ToolNames) -> Head:
    """Reads a head; never fails: what is wrong is in its ``problems``, and the rest is the best reading."""
    return _HeadParser(tools).read(parts)


class _HeadParser:
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
            self._problem("role-missing", 0, "the frame has no role")
        for control in sections:
            if (head.channel is None) if control is CHANNEL else not head.constrained:
                self._problem("section-empty", offset, f"nothing follows {control}")
        self._apply_attributes(offset)
        head.canonical = not head.problems and spell(list(head_pieces(head.message()))) == spell(list(parts))
        return head

    def _problem(self, rule: RuleName, offset: int, message: str, hint: str | None = None) -> None:
        self._head.problems.append(Problem(offset, message, hint, rule=rule))

    def _enter(self, control: Control, sections: set[Control], offset: int) -> None:
        if control in sections:
            hint = "Each message has exactly one channel." if control is CHANNEL else "A body has one type."
            self._problem("section-twice", offset, f"{control} stands twice in one head", hint)
        elif control is CHANNEL and CONSTRAIN in sections:
            self._problem("channel-form", offset, "<|channel|> stands after <|constrain|>", "The channel comes first.")
        sections.add(control)

    def _start(self, text: str, base: int) -> None:
        words = list(_WORD.finditer(text))
        if not words or words[0].start():
            self._problem("role-missing", base, "the frame has no role", "A role follows <|start|> at once.")
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
                self._problem("role-form", at, f"{word!r} is no role", "Only blanks and tabs may follow a role.")
            return
        head.role, head.name = Role.TOOL, well_formed(word)
        if not _TOOL_AUTHOR.match(word) or not (self._tools.knows(word) or "to" in self._values):
            head.is_unknown = True
            hint = "system, developer, user, assistant, tool, or a tool's qualified name."
            self._problem("role-unknown", at, f"unknown role {word!r}", did_you_mean(word, _ROLES, hint))

    def _channel(self, text: str, base: int) -> None:
        words = list(_WORD.finditer(text))
        if not words:
            return
        self._seen.clear()
        at = base + words[0].start()
        channel = self._value(words[0].group(), at)
        if words[0].start():
            self._problem("channel-form", base, "a blank stands between <|channel|> and the channel")
        if self._head.channel is None:
            self._head.channel = channel or None
            self._head.places["channel"] = at
            if channel not in _CHANNELS:
                hint = did_you_mean(channel, _CHANNELS, "analysis, commentary or final.")
                self._problem("channel-unknown", at, f"unknown channel {channel!r}", hint)
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
            self._problem("attribute-place", base + word.start(), f"{word.group()!r} follows the constrained type")
            self._attribute(word.group(), base + word.start(), ATTRIBUTES)

    def _attribute(self, word: str, at: int, allowed: Sequence[str]) -> None:
        key, equals, raw = word.partition("=")
        if not equals or key not in ATTRIBUTES:
            hint = "Attributes are to, call_id, name, intent and content_type; a blank in a value is written %20."
            hint = did_you_mean(key, ATTRIBUTES, hint) if equals else hint
            return self._problem("attribute-unknown", at, f"{word!r} is no attribute of a frame", hint)
        if key not in allowed:
            self._problem("attribute-place", at, f"{key}= belongs into the start section")
        value = self._value(raw, at + len(key) + 1)
        if key in self._seen and value == self._values[key]:
            return self._problem("attribute-twice", at, f"{key}= stands twice")
        self._seen.add(key)
        if key not in self._values:
            self._values[key] = value
            self._head.places[key] = at
        elif self._values[key] != value:
            self._problem("attribute-conflict", at, f"{key}= has two values, {self._values[key]!r} and {value!r}")
        return None

    def _value(self, raw: str, at: int) -> str:
        legal, control = VALUE.match(raw), TOKEN.search(raw)
        end = control.start() if control else legal.end() if legal else 0
        value = decode_value(raw)
        if raw and end == len(raw):
            return value
        hint = "A value is visible ASCII without controls; other characters are percent-encoded."
        self._problem(
            "attribute-value", at + end, f"{raw!r} is no value of an attribute" if raw else "the value is empty", hint
        )
        return well_formed(value).strip(_CONTROL_CHARACTERS)

    def _apply_attributes(self, end: int) -> None:
        """Attributes become fields; the rules that need the whole head."""
        head, values = self._head, self._values
        head.recipient = values.get("to") or None
        head.call_id = values.get("call_id") or None
        head.intent = values.get("intent") or None
        self._apply_name(values.get("name") or None, end)
        if not self._tools.addresses(head.recipient):
            hint = "assistant, functions.x, browser.x, python, or a namespace that the header declares."
            hint = self._tools.did_you_mean(head.recipient or "", hint)
            self._problem("recipient-unknown", head.places["to"], f"unknown recipient {head.recipient!r}", hint)
        if head.intent is not None and head.intent not in INTENTS:
            hint = did_you_mean(head.intent, INTENTS, "preamble, status or debug.")
            self._problem("intent-unknown", head.places["intent"], f"unknown intent {head.intent!r}", hint)
        content_type = values.get("content_type") or None
        if not head.constrained:
            head.content_type = content_type
        elif content_type is not None and content_type != head.content_type:
            message = f"content_type={content_type} is not what <|constrain|> says"
            self._problem("attribute-conflict", head.places["content_type"], message)

    def _apply_name(self, name: str | None, end: int) -> None:
        head = self._head
        if head.role is not Role.TOOL:
            head.name = name
        elif head.is_legacy_reply:
            if name is not None and self._tools.qualify(name) != head.name:
                self._problem(
                    "attribute-conflict", head.places["name"], f"the reply of {head.name!r} is named {name!r}"
                )
        elif name is None:
            head.name = None
            self._problem("reply-name-missing", end, "a tool's reply has no name=", "Write tool name=functions.x.")
        else:
            head.name = self._tools.qualify(name)


def split(text: str) -> tuple[Piece, ...]:
    """A spelled head as its pieces."""
    pieces: list[Piece] = []
    start = 0
    for found in TOKEN.finditer(text):
        pieces += ([text[start : found.start()]] if found.start() > start else []) + [BY_SPELLING[found.group()]]
        start = found.end()
    return (*pieces, *((text[start:],) if start < len(text) else ()))
