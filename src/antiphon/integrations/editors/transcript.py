"""A transcript as an editor shows it: its parts, what a word means, what may be written where.

Places are offsets in the text, in characters from 0. ``§`` is a clause of `docs/openchatml-format.md`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol.types import CompletionItemKind, SymbolKind

from antiphon.formats.openchatml.declarations import declared_tools
from antiphon.formats.openchatml.frame import Frame
from antiphon.formats.openchatml.lint.rule import LintedText
from antiphon.formats.openchatml.schemas import HEADER
from antiphon.formats.openchatml.spelling import CHANNEL, CONSTRAIN, MESSAGE, START, TOKEN

# What the words of the format mean, in a sentence or two of Markdown each: for a hover.

CONTROLS = {
    "<|start|>": "Opens a frame. The author follows at once, then attributes (§5.1).",
    "<|channel|>": "The frame's channel follows: `analysis`, `commentary` or `final`. Without one: `final` (§5.9).",
    "<|message|>": "Ends the head; the body follows, up to the footer (§4.1).",
    "<|constrain|>": "The type of the body follows. A body that is not of it is `E-BODY-CONSTRAINT-VIOLATION` (§6.1).",
    "<|end|>": "Closes the frame (§4.3).",
    "<|call|>": "Closes a call of a tool. Generation stops here, and the tool is run (§4.3, §7.3).",
    "<|return|>": "Closes the assistant's final answer. Generation stops here (§4.3).",
    "<|literal|>": "Opens a literal block: up to `<|endliteral|>` nothing is a control or an escape (§3.5).",
    "<|endliteral|>": "Ends a literal block (§3.5).",
}
"""Each control by its spelling."""

ESCAPE = "A control as text: one `<` more than it has, which is dropped when it is read (§3.3)."

_MARKERS = {
    "reflect": "criticism of oneself",
    "introspect": "probing",
    "reason": "steps of reasoning",
}
_MARKER = re.compile(r"<\|(start|end)_(reflect|introspect|reason)\|>")

ROLES = {
    "system": "What cannot be argued with; it outranks all others, and end users do not see it (§6.2).",
    "developer": "Instructions and definitions of tools, below `system`; end users do not see it (§6.2).",
    "user": "What the end user wrote (§6.3).",
    "assistant": "What the model wrote: reasoning, calls, answers (§7.8).",
    "tool": "A tool's reply. `name=` names the tool, `call_id=` the call that it answers (§7.5).",
}
_AUTHOR = "A reply by the tool `{}`, in the older form. It is written `tool name={}` (§7.5)."

CHANNELS = {
    "analysis": "Reasoning. End users never see it (§6.3).",
    "commentary": "Calls of tools; and plans for the user, which are shown if the head says `intent=preamble` (§6.4).",
    "final": "The answer, which end users see (§6.3).",
}
CONSTRAINT = "The type that the body has, `json` for arguments of a call (§5.10)."

ATTRIBUTES = {
    "to": "Whom the message goes to: a tool (`functions.x`, `browser.x`, `python`), which makes it a call, or "
    "`assistant` (§5.6).",
    "call_id": "The call's id, unique in the transcript; the reply has the same (§7.2).",
    "name": "The speaker's name. A reply of the role `tool` has the tool's name here (§5.7).",
    "intent": "What a commentary is for: `preamble`, `status` or `debug` (§5.8).",
    "content_type": "A hint at what the body is. `<|constrain|>` makes it a promise (§5.10).",
}
INTENTS = {
    "preamble": "a plan for the user, which is shown",
    "status": "a word about progress, which is not shown",
    "debug": "for developers, which is not shown",
}

KEYS = {
    "version": "The format's version, major.minor; in quotes, since YAML reads 2.10 as 2.1 (§2.3).",
    "model": "The model that the transcript is for, or is by (§2.4).",
    "generation_settings": "Settings of generation, for the whole transcript (§2.4).",
    "temperature": "From 0, which is greedy, to 2 (§2.4).",
    "reasoning_effort": "How much the model reasons: `low`, `medium` or `high` (§2.4).",
    "builtin_tools": "Tools that the model has beside functions, as `browser` and `python` (§2.4).",
    "capabilities": "What the transcript may use. A list that is there leaves out all that it does not name (§2.5).",
    "roles": "The roles in use; `functions.*` is every function (§2.5).",
    "channels": "The channels in use (§2.5).",
    "tokens": "The controls in use (§2.5).",
    "streaming": "The streaming events that this side takes (§2.5, §9.1).",
    "profiles": "Further sets of rules, each by its name (§2.6).",
    "harmony": "HIP-1: the rules that let Harmony's text through and back (§11).",
    "enabled": "Whether the profile's rules hold (§2.6).",
    "encoding": "The profile's vocabulary, for information (§2.6).",
    "require_channels": "Channels of which assistant and tools must name one (§2.6).",
    "tool_calls_in": "The channels on which functions are called (§2.6).",
    "builtins_in": "The channels on which built-in tools are called (§2.6).",
}
"""The keys of a header."""


def of_control(spelled: str) -> str | None:
    """The meaning of a control, an escaped control or a reflection marker; None for other text."""
    if spelled in CONTROLS:
        return CONTROLS[spelled]
    if f"<{spelled.lstrip('<')}" in CONTROLS:
        return ESCAPE
    marker = _MARKER.fullmatch(spelled)
    if marker is None:
        return None
    return f"Marks where {_MARKERS[marker[2]]} {marker[1]}s. It is text of analysis, and triggers nothing (§6.5)."


def of_attribute(spelled: str) -> str:
    """The meaning of ``key=value``."""
    key, _, value = spelled.partition("=")
    described = ATTRIBUTES[key]
    return f"{described}\n\n`{value}`: {INTENTS[value]}." if key == "intent" and value in INTENTS else described


DETAIL = 60
"""Characters of a body that an outline shows."""

_WORD = re.compile(r"<+\|\w+\|>|<|[^\s<]+")
_KEY = re.compile(r"^([ \t-]*)([\w-]+)(?=[ \t]*:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from ``start`` up to, and without, ``end``."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the outline: the header, or a frame. ``title`` is the span of its head."""

    name: str
    detail: str
    span: Span
    title: Span
    kind: SymbolKind


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of the word at a place, in Markdown."""

    text: str
    span: Span


def parts(source: LintedText) -> Iterator[Part]:
    """The header and the frames, whatever is wrong with them."""
    text, begin = source.text, source.frames_at
    if text[:begin].strip():
        title = Span(0, len(text[:begin].split("\n", 1)[0]))
        yield Part("header", "", Span(0, begin), title, SymbolKind.Namespace)
    for frame in _frames(source):
        places, message = frame.places, frame.message
        detail = " ".join(message.text[: DETAIL * 2].split())[:DETAIL]
        span = Span(places.start.offset, frame.behind.offset)
        speaker = message.name or "tool" if message.role == "tool" else str(message.role)
        towards = f" → {message.recipient}" if message.is_call else ""
        name = f"{speaker}{towards}" + (f" ({message.channel})" if message.channel else "")
        kind = SymbolKind.Function if message.is_call else SymbolKind.String
        yield Part(name, detail, span, Span(places.start.offset, places.body.offset), kind)


def _frames(source: LintedText) -> list[Frame]:
    return [one for one in source.read.found if isinstance(one, Frame)]


def _frame_at(source: LintedText, offset: int) -> Frame | None:
    """The frame in which an offset is, or behind which it is."""
    frames = _frames(source)
    number = bisect_right(frames, offset, key=lambda frame: frame.places.start.offset)
    return frames[number - 1] if number else None


def meaning(source: LintedText, offset: int) -> Meaning | None:
    """The meaning of the word at the offset; None where it is text of a body or of no meaning to the format."""
    text = source.text
    if offset < source.frames_at:
        key = _KEY.match(text, text.rfind("\n", 0, offset) + 1)
        span = Span(*key.span(2)) if key is not None else Span(0, 0)
        return Meaning(KEYS[key[2]], span) if key is not None and offset in span and key[2] in KEYS else None
    word = _word_at(text, offset)
    if word is None:
        return None
    frame, spelled = _frame_at(source, word.start), text[word.start : word.end]
    if frame is not None and word.start < frame.places.body.offset and not TOKEN.fullmatch(spelled):
        return _of_head(text, word, frame)
    explained = of_control(spelled)
    return Meaning(explained, word) if explained else None


def _word_at(text: str, offset: int) -> Span | None:
    line = text.rfind("\n", 0, offset) + 1
    found = next((w for w in _WORD.finditer(text, line, min(len(text), offset + 4096)) if offset < w.end()), None)
    return Span(*found.span()) if found and found.start() <= offset else None


def _of_head(text: str, word: Span, frame: Frame) -> Meaning | None:
    """A word of a head: the author, the channel, the type of the body, or an attribute."""
    spelled, before = text[word.start : word.end], text[frame.places.start.offset : word.start].rstrip(" \t")
    key = spelled.partition("=")[0]
    explained: str | None
    if before == START.spelling:
        explained = ROLES.get(spelled) or _AUTHOR.format(spelled, spelled)
    elif before.endswith(CHANNEL.spelling):
        explained = CHANNELS.get(spelled)
    elif before.endswith(CONSTRAIN.spelling):
        explained = CONSTRAINT
    else:
        explained = of_attribute(spelled) if key in ATTRIBUTES else None
    return Meaning(explained, word) if explained else None


# -- what may be written ----------------------------------------------------------------------------------------------

_TYPED = re.compile(r"(\A|<\|channel\|>|<\|constrain\|>|[ \t](?:(?:to|name|intent)=)?)([^\s<>|=]*)\Z")
"""The word at the end of a head that is being typed, behind the mark of its kind."""
_LINE = re.compile(r"([ \t]*)(?:([\w-]+)[ \t]*:[ \t]+\[?(?:[^\[\]]*,)?[ \t]*)?([\w-]*)\Z")
"""A line of a header that is being typed: its indentation, the key where it has one, and the word at its end."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A word that may replace the text of the span."""

    word: str
    meaning: str
    span: Span
    kind: CompletionItemKind


def completions(source: LintedText, offset: int) -> list[Completion]:
    """The words that may be written at the offset: keys and values of the header, or words of a head."""
    if offset <= source.yaml_end:
        typed, words, kind = _in_header(source.text[source.header_start : offset])
    else:
        typed, words, kind = _in_head(source, offset)
    return [Completion(word, meant, Span(offset - len(typed), offset), kind) for word, meant in words.items()]


Typed = tuple[str, Mapping[str, str], CompletionItemKind]
"""The word that is being typed, and what it may become."""
_NOTHING: Typed = ("", {}, CompletionItemKind.Text)


def _in_head(source: LintedText, offset: int) -> Typed:
    start = source.text.rfind(START.spelling, source.frames_at, offset)
    before, head = _frame_at(source, start - 1), source.text[start + len(START.spelling) : offset]
    found = _TYPED.search(head)
    if start < 0 or MESSAGE.spelling in head or found is None or (before and start < before.behind.offset):
        return _NOTHING
    lead, typed = found[1].lstrip(), found[2]
    match lead:
        case "to=":
            words = {"assistant": ROLES["assistant"], **_tools(source, start)}
            return typed, words, CompletionItemKind.Function
        case "name=":
            return typed, _tools(source, start), CompletionItemKind.Function
        case "" if found[1]:
            return typed, {f"{key}=": meant for key, meant in ATTRIBUTES.items()}, CompletionItemKind.Property
    kinds = {"": ROLES, CHANNEL.spelling: CHANNELS, CONSTRAIN.spelling: {"json": CONSTRAINT}, "intent=": INTENTS}
    return typed, kinds[lead], CompletionItemKind.EnumMember


def _tools(source: LintedText, before: int) -> dict[str, str]:
    """The tools that the header, and the messages before a place, declare."""
    messages = [frame.message for frame in _frames(source) if frame.places.start.offset < before]
    words: dict[str, str] = {}
    for space in declared_tools(messages):
        words |= {tool.recipient: tool.description for tool in space.tools} or {space.name: space.description or ""}
    return words | dict.fromkeys(source.header.builtin_tools if source.header else (), KEYS["builtin_tools"])


def _in_header(text: str) -> Typed:
    *above, line = text.split("\n")
    found = _LINE.fullmatch(line)
    schema = _schema_at(above, len(found[1])) if found else {}
    if found is None or "properties" not in schema:
        return _NOTHING
    if found[2] is None:
        keys = {
            f"{key}:{' ' * ('properties' not in of)}": KEYS.get(key, "") for key, of in schema["properties"].items()
        }
        return found[3], keys, CompletionItemKind.Property
    words = _allowed(schema["properties"].get(found[2], {}))
    return found[3], dict.fromkeys(words, KEYS.get(found[2], "")), CompletionItemKind.EnumMember


def _schema_at(above: Sequence[str], indent: int) -> Any:
    """The schema of the mapping that has a line with the indentation; an empty one where none is known."""
    path: list[str] = []
    for line in reversed(above):
        found = _KEY.match(line)
        if found and len(found[1]) < indent:
            path, indent = [found[2], *path], len(found[1])
    schema: Any = HEADER
    for key in path:
        schema = schema.get("properties", {}).get(key, {})
    return schema


def _allowed(schema: Any) -> Iterator[str]:
    """The words that a value, or a value in a list, may be."""
    yield from (str(word) for word in schema.get("enum", ()))
    yield from ("true", "false") if schema.get("type") == "boolean" else ()
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from _allowed(part)
