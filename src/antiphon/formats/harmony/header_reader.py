"""Reads a message's header as models really write it: a set of fields, of which the first valid one of each kind wins.

Every word is read as a field or reported as noise; nothing raises. The strict parser reads headers by the reference's
rules instead (`reference`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from antiphon.conversation import FUNCTIONS, Channel, Role
from antiphon.tokens import Control

from .controls import CHANNEL, CONSTRAIN, START
from .header import CHANNELS, CONTENT_TYPES, ROLES, Header, HeaderBuffer, HeaderSection, HeaderStart

BLANK = " \t\n\r\f"
"""The characters that separate words, as in the reference."""

_WORD = re.compile(f"[^{BLANK}]+")
_VALUE = re.compile(r"""[^<{(\["'`]+""")
_RECIPIENT = re.compile(r"""to([=:])(?:to[=:])*([^<{(\["'`]*)""")
_APART = re.compile(rf"(?<![^{BLANK}])to[{BLANK}]+=[{BLANK}]*")
_NAME = re.compile(r"""[^<{(\["'`]*[^<{(\["'`.]""")
_QUALIFIED = re.compile(r"""[^\W\d]\w*(?:\.[\w-]+)+""")
_WITHIN = re.compile(r"[\w-]+(?:\.[\w-]+)*")
"""A name within another word: between quotes, behind a mark, before a comma."""


class HeaderReader:
    """Reads one header.

    ``complete``: it ended with ``<|message|>``; otherwise the first word that is no field begins the content.
    ``tools`` maps each name that means an offered tool to its recipient (`offered_names`).
    """

    def __init__(self, expected: Role | None, tools: Mapping[str, str], *, complete: bool) -> None:
        self._expected = expected
        self._tools = tools
        self._complete = complete
        self._header = Header(expected or Role.ASSISTANT, complete=complete)
        self._noise: list[str] = []
        self._bad_channels: list[str] = []
        self._odd: list[str] = []
        """Words that are read as a field, and may name a tool besides."""
        self._channel_seen = False
        self._channel_in_start = False
        """The channel is a word before any ``<|channel|>``, which a channel behind one replaces."""
        self._recipient_follows = False
        self._missing_to = False
        self._start = HeaderStart.CONTROL

    def read(self, buffer: HeaderBuffer) -> Header:
        """The fields of all sections, in their order. Leaves the buffer as it is."""
        self._start = buffer.start
        self._header.source = buffer.text
        for i, section in enumerate(buffer.sections):
            last = i == len(buffer.sections) - 1
            self._section(section, ends_in_content=last and not self._complete)
        self._finish()
        return self._header

    def _section(self, section: HeaderSection, *, ends_in_content: bool) -> None:
        first, text = True, section.text
        self._channel_seen |= section.control == CHANNEL
        if self._complete and (apart := _APART.search(text)):
            self._repair("recipient-repaired", apart[0])
            text = _APART.sub("to=", text)
        for start, word in _words(text):
            read = self._first if first else self._field
            used = read(word, section.control) if word.isprintable() else 0
            if used < len(word) and ends_in_content and self._may_begin_content(text[start + used :], section.control):
                self._header.rest = text[start + used :]
                return
            if used < len(word):
                self._noise.append(word[used:])
            # A role that is not at the start of a header without its start may follow stray words.
            stray = self._start is HeaderStart.MISSING and section.control == START
            first = first and used == 0 and (stray or not word.isprintable())
        if section.control == CHANNEL and not text.strip():
            self._bad_channels.append("")

    def _may_begin_content(self, text: str, control: Control) -> bool:
        """Not before the recipient of a call, which is marked and offered, nor between a function and its JSON.

        Nor behind the unknown type of a call, which is a sentence of its own then; but JSON does.
        """
        before, to = _value(text), self._header.recipient
        if to is None:
            marked = (found for word in before.split() if (found := _RECIPIENT.match(word)))
            may_call = self._header.channel in (None, Channel.COMMENTARY)
            return not (may_call and any(found[2] in self._tools for found in marked))
        apart = before.endswith(tuple(BLANK)) and text.startswith("{", len(before))
        sentence = control == CONSTRAIN and self._header.content_type not in CONTENT_TYPES
        return not (sentence or (apart and to.startswith(f"{FUNCTIONS}."))) or text.startswith(("{", "["))

    # The readers of one word: each returns how many characters of it are a field, 0 when it is none.

    def _first(self, word: str, control: Control) -> int:
        """The first word of a section, whose meaning its control gives."""
        if control == CHANNEL:
            return self._channel(word)
        if control == CONSTRAIN:
            return self._constrained(word)
        if used := self._role(word):
            return used
        if self._start is not HeaderStart.CONTROL or (self._expected is None and word.startswith("to=")):
            return self._field(word, control)
        return self._unknown_role(word, control)

    def _role(self, word: str) -> int:
        """A role, also doubled or joined with a name (``user:bob``), a channel or a recipient (``assistantfinal``)."""
        role = next((role for role in ROLES if word.startswith(role)), None)
        if role is None or (self._start is HeaderStart.IN_PROMPT and role != self._expected):
            return 0
        tail = word[len(role) :]
        while tail.startswith(role):
            tail = tail[len(role) :]
        if tail.startswith(":") and not tail[1:].startswith(("to=", "to:")):
            self._header.role, self._header.name = Role(role), tail[1:] or None
            return len(word)
        joined = tail and not tail.startswith(("to=", "to:")) and known_channel(tail) is None
        if joined and (role != self._expected or not self._complete or word in self._tools):
            return 0
        self._header.role = Role(role)
        if word == role:
            self._header.name = word if role == Role.TOOL else None  # a tool has a name, if only this one
            return len(word)
        self._repair("role-repaired", word)
        return len(word) - len(tail) + (self._field(tail, START) if tail else 0)

    def _unknown_role(self, word: str, control: Control) -> int:
        """A word in place of a role: a channel, a recipient, or the name of a tool."""
        if self._expected is not None and (word in CHANNELS or _RECIPIENT.match(word)):
            self._repair("role-repaired", word)
            if word in CHANNELS:
                self._header.channel, self._channel_in_start = word, True
                return len(word)
            return self._field(word, control)
        if self._expected is not None and not _NAME.fullmatch(word):
            return 0
        self._header.unknown_role = word
        return len(word)

    def _channel(self, word: str) -> int:
        """The channel after ``<|channel|>``; before content without ``<|message|>``, text may be joined to it."""
        value = _value(word) or word
        if self._is_other_field(word, value):
            self._bad_channels.append("")
            return self._field(word, CHANNEL)
        known = known_channel(value)
        if known is None:
            if not self._complete:
                return 0
            self._bad_channels.append(value)
            return len(value)
        if self._header.channel is not None and not self._channel_in_start:
            self._another_channel(known, value)
        else:
            if self._channel_in_start and known != self._header.channel:
                self._repair("dup-channel", self._header.channel or "")
            self._header.channel, self._channel_in_start = known, False
            if value != known:
                self._odd.append(value)
                self._repair("channel-repaired", value)
        more = value[len(known) :] if value.startswith(known) else ""
        glued = not self._complete and (more and (len(more) > 2 or not more[0].islower()))
        return len(known) if glued else len(value)

    def _is_other_field(self, word: str, value: str) -> bool:
        """Whether a word in a channel's place is a recipient, a content type or the role."""
        if _RECIPIENT.match(word):
            return True
        if not self._complete or value in CHANNELS:
            return value in self._tools and "." in value
        other = value in CONTENT_TYPES or value == self._header.role or is_qualified(value)
        return value in self._tools or (other and known_channel(value) is None)

    def _another_channel(self, known: str, text: str) -> None:
        """Takes of two channels the one that is shown; the incident names both where they differ."""
        first = self._header.channel or known
        self._repair("dup-channel", text if known == first else f"{first} {text}")
        self._header.channel = max(first, known, key=CHANNELS.index)

    def _constrained(self, word: str) -> int:
        """The content type after ``<|constrain|>``; a recipient or a channel in its place is read as one."""
        value = _value(word)
        named = is_qualified(value) or named_within((value,), self._tools, bare=False)
        called = value in self._tools or (self._complete and named)
        if _RECIPIENT.match(word) or value in CHANNELS or (called and self._names_nobody):
            return self._field(word, CONSTRAIN)
        if not value or (value not in CONTENT_TYPES and not self._complete and self._header.recipient is None):
            return 0
        if self._header.content_type is not None:
            self._repair("dup-constrain", value)
            return len(value)
        self._header.content_type, self._header.constrained = value, True
        if value not in CONTENT_TYPES and self._complete:
            self._repair("unknown-content-type", value)
        return len(value)

    def _field(self, word: str, control: Control) -> int:
        """A word that may be anywhere in the header."""
        if found := _RECIPIENT.match(word):
            return self._to(found)
        if self._recipient_follows:
            self._recipient_follows = False
            return self._recipient(word)
        value = _value(word)
        if self._is_plain(control):
            return 0
        if value in self._tools:
            self._missing_to |= self._header.recipient is None
            return self._recipient(word)
        if value in CONTENT_TYPES:
            return self._content_type(value)
        if self._complete and is_qualified(value):
            self._missing_to |= self._header.recipient is None
            return self._recipient(word)
        if value in ROLES and value == self._header.role:
            self._repair("dup-role", value)
            return len(value)
        return self._late_channel(value, control)

    def _is_plain(self, control: Control) -> bool:
        """Text without any control may begin with any word, so in it only a marked word (``to=``) is a field."""
        bare = not self._complete and control == START and self._start is not HeaderStart.CONTROL
        return bare and self._header.recipient is None

    def _to(self, found: re.Match[str]) -> int:
        """``to=NAME``, ``to:NAME``, or ``to=`` with the name in the next word."""
        mark, name = found.groups()
        within = named_within((found.string[found.end() :],), self._tools) if self._complete and not name else None
        if within is not None:
            self._repair("recipient-repaired", found.string)
            self._recipient(within)
            return len(found.string)
        if not name:
            self._recipient_follows = True
            self._repair("header-noise", found[0])
        elif mark == ":":
            self._repair("recipient-repaired", found[0])
            self._recipient(name)
        else:
            self._recipient(name)
        return found.end()

    def _recipient(self, word: str) -> int:
        name = _value(word)
        if name.endswith(".") or not name:
            self._repair("empty-recipient", name)
        elif not self._names_nobody:
            self._repair("dup-recipient", name)
        else:
            self._header.recipient = self._tools.get(name, name)
            if self._header.recipient != name:
                self._repair("recipient-repaired", name)
        return len(name)

    @property
    def _names_nobody(self) -> bool:
        """Whether there is no recipient yet, or one that any other word for one makes clear."""
        return self._header.recipient in (None, "all", FUNCTIONS)

    def _content_type(self, value: str) -> int:
        if self._header.content_type is not None:
            self._repair("dup-constrain", value)
        else:
            self._header.content_type = value
        return len(value)

    def _late_channel(self, value: str, control: Control) -> int:
        """A channel's name behind a word that is no channel, or without ``<|channel|>`` before it."""
        if self._header.channel is not None:
            if control == START or not self._complete or self._noise or value not in CHANNELS:
                return 0
            self._another_channel(value, value)
            return len(value)
        if control == CHANNEL and self._bad_channels and (known := known_channel(value)):
            self._header.channel = known
            self._repair("channel-repaired", " ".join((*self._bad_channels, value)).strip())
            self._odd += self._bad_channels
            self._bad_channels.clear()
            return len(value)
        if value in CHANNELS and (control == CONSTRAIN or (control == START and not self._channel_seen)):
            self._header.channel, self._channel_in_start = value, control == START
            self._repair("missing-channel-token", value)
            return len(value)
        return 0

    def _finish(self) -> None:
        header = self._header
        if self._missing_to:
            self._repair("missing-to", header.recipient or "")
        if found := self._recipient_within():
            header.recipient = found
            self._repair("recipient-repaired", found)
        elif header.channel is None and self._bad_channels:
            self._name_bad_channel()
        self._noise += filter(None, self._bad_channels)
        apart = header.channel == Channel.FINAL or self._names_tool(header.unknown_role or "")
        if header.content_type == "code" and self._names_nobody and not apart and "python" in self._tools:
            header.recipient = "python"
            self._repair("bare-content-type", "code")
            self._repair("recipient-inferred", "python")
        if self._noise:
            self._repair("header-noise", " ".join(self._noise))
        if header.unknown_role is not None:
            self._place_unknown_role(header.unknown_role)

    def _recipient_within(self) -> str | None:
        """The one offered tool that is named within an unknown recipient, or within words that are none."""
        recipient = None if self._names_nobody else self._header.recipient
        if recipient in self._tools or recipient in ROLES or not (recipient or self._complete):
            return None
        words = (recipient,) if recipient else (*self._noise, *self._bad_channels, *self._odd)
        return named_within(words, self._tools, bare=bool(recipient) or self._recipient_follows)

    def _name_bad_channel(self) -> None:
        """Without a known channel, the first word with a letter or digit is the channel; marks alone are none."""
        named = next((i for i, v in enumerate(self._bad_channels) if any(c.isalnum() for c in v)), None)
        if named is None:
            self._repair("empty-channel", "".join(self._bad_channels))
            self._bad_channels.clear()
            return
        self._header.channel = self._bad_channels.pop(named)
        self._repair("unknown-channel", self._header.channel)

    def _place_unknown_role(self, word: str) -> None:
        """In a whole conversation it names a tool. In a reply it is a tool only if the other fields say so.

        A function is one, or is called: the end of its message says which.
        """
        header = self._header
        function = word.startswith(f"{FUNCTIONS}.") and header.recipient is None
        if self._expected is None or header.recipient in ROLES:
            header.role, header.name, header.unknown_role = Role.TOOL, word, None
        elif not function and header.recipient is None and self._names_tool(word):
            header.recipient, header.unknown_role = self._names_tool(word), None
            self._repair("role-as-recipient", word)
        elif not function and (header.channel is not None or header.recipient is not None):
            header.unknown_role = None
            self._repair("role-repaired", word)

    def _names_tool(self, word: str) -> str | None:
        """The offered tool that a word in the role's place names; a function's name is one in any case."""
        named = self._tools.get(word) or named_within((word,), self._tools, bare=False)
        return named or (word if word.startswith(f"{FUNCTIONS}.") else None)

    def _repair(self, code: str, text: str) -> None:
        self._header.repairs.append((code, text))


def _words(text: str) -> Iterator[tuple[int, str]]:
    """The words with their places; what cannot be printed is a word of its own, for no value of a header has it."""
    for found in _WORD.finditer(text):
        start = found.start()
        for _, run in groupby(found[0], str.isprintable):
            yield start, (word := "".join(run))
            start += len(word)


def _value(word: str) -> str:
    """The word up to the bracket or quote that begins a content."""
    return found[0] if (found := _VALUE.match(word)) else ""


def named_within(words: Iterable[str], tools: Mapping[str, str], *, bare: bool = True) -> str | None:
    """The one offered tool that is named within the words, if one is. ``bare``: a name without a dot is one, too."""
    parts = {part for word in words for part in _WITHIN.findall(word) if bare or "." in part}
    lower = {part.lower() for part in parts}
    found = {tools[part] for part in parts & tools.keys()} or {tools[name] for name in tools if name.lower() in lower}
    return found.pop() if len(found) == 1 else None


def is_qualified(word: str) -> bool:
    """Whether a word of a header is a tool's name with its namespace, which is a recipient without ``to=``, too."""
    return _QUALIFIED.fullmatch(_value(word)) is not None


def known_channel(value: str) -> str | None:
    """The channel that a value names, also in other case, with stray marks, and with letters added or missing.

    None for one that names two (``finalanalysis``).
    """
    if value in CHANNELS:
        return value
    letters = "".join(c for c in value.lower() if c.isascii() and c.isalpha())
    meant = [c for c in CHANNELS if c in letters or (len(letters) > 2 and c.startswith(letters))]
    if meant and not letters.startswith(meant[0]) and not meant[0].startswith(letters):
        return None
    return meant[0] if len(meant) == 1 else None
