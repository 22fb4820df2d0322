"""A transcript as an editor shows it: its parts, and what a word means.

Places are offsets in the text, in characters from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from antiphon.conversation import End
from antiphon.errors.place import Place
from antiphon.formats.openchatml.frame import Frame
from antiphon.formats.openchatml.frame_reader import FrameReader
from antiphon.formats.openchatml.head import ATTRIBUTES
from antiphon.formats.openchatml.spelling import CHANNEL, CONSTRAIN, START, TOKEN
from antiphon.formats.openchatml.yaml_header import HeaderScanner

from . import meanings

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
    is_call: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the word at a place means, in Markdown."""

    text: str
    span: Span


def parts(text: str) -> Iterator[Part]:
    """The header and the frames, whatever is wrong with them."""
    begin, frames = _frames(text)
    if text[:begin].strip():
        yield Part("header", "", Span(0, begin), Span(0, len(text[:begin].split("\n", 1)[0])))
    for frame in frames:
        places, message = frame.places, frame.message
        end = places.footer.offset + (0 if message.end is End.NONE else len(f"<|{message.end}|>"))
        detail = " ".join(message.text[: DETAIL * 2].split())[:DETAIL]
        span, title = Span(places.start.offset, end), Span(places.start.offset, places.body.offset)
        yield Part(_name(frame), detail, span, title, message.is_call)


def _name(frame: Frame) -> str:
    message = frame.message
    speaker = message.name or "tool" if message.role == "tool" else str(message.role)
    towards = f" → {message.recipient}" if message.is_call else ""
    return f"{speaker}{towards}" + (f" ({message.channel})" if message.channel else "")


def _frames(text: str) -> tuple[int, Sequence[Frame]]:
    """Where the frames begin, and those that can be read."""
    scanner, reader = HeaderScanner(), FrameReader()
    scanner.feed(text, last=True)
    begin = len(scanner.bom) + (scanner.frames_at or 0)
    reader.place = Place(begin)
    reader.feed(text[begin:])
    reader.close()
    return begin, [found for found in reader.take() if isinstance(found, Frame)]


def meaning(text: str, offset: int) -> Meaning | None:
    """What the word at the offset means; None where it is text of a body or of no meaning to the format."""
    begin, frames = _frames(text)
    if offset < begin:
        return _of_key(text, offset)
    word = _word_at(text, offset)
    if word is None:
        return None
    frame = next((f for f in frames if word.start in Span(f.places.start.offset, f.places.body.offset)), None)
    spelled = text[word.start : word.end]
    if frame is not None and not TOKEN.fullmatch(spelled):
        return _of_head(text, word, frame)
    explained = meanings.of_control(spelled)
    return Meaning(explained, word) if explained else None


def _word_at(text: str, offset: int) -> Span | None:
    line = text.rfind("\n", 0, offset) + 1
    found = next((w for w in _WORD.finditer(text, line, min(len(text), offset + 4096)) if offset < w.end()), None)
    return Span(*found.span()) if found and found.start() <= offset else None


def _of_key(text: str, offset: int) -> Meaning | None:
    line = text.rfind("\n", 0, offset) + 1
    key = _KEY.match(text, line)
    if key is None or offset not in Span(*key.span(2)) or key[2] not in meanings.KEYS:
        return None
    return Meaning(meanings.KEYS[key[2]], Span(*key.span(2)))


def _of_head(text: str, word: Span, frame: Frame) -> Meaning | None:
    """A word of a head: the author, the channel, the type of the body, or an attribute."""
    spelled, before = text[word.start : word.end], text[frame.places.start.offset : word.start].rstrip(" \t")
    key = spelled.partition("=")[0]
    if before == START.spelling:
        explained: str | None = meanings.of_author(spelled)
    elif before.endswith(CHANNEL.spelling):
        explained = meanings.CHANNELS.get(spelled)
    elif before.endswith(CONSTRAIN.spelling):
        explained = meanings.CONSTRAINT
    else:
        explained = meanings.of_attribute(spelled) if key in ATTRIBUTES else None
    return Meaning(explained, word) if explained else None
