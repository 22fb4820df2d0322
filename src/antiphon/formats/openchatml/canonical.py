"""A transcript in canonical form: the same header, the same messages, one way to write them (A-O02)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import yaml

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import ParseError, RenderError
from antiphon.errors.place import Place

from .document import DocumentHeader
from .finding import Finding
from .frame import Trivia
from .header_writer import spell_header
from .reader import TranscriptEnvelope, read
from .writer import Writer
from .yaml_header import HeaderScanner, read_header

_VERSION = re.compile(r"^version:[ \t]*([0-9.]+)(?=[ \t]*(?:#|$))", re.MULTILINE)


def format_transcript(transcript: str | bytes, *, fragment: bool = False) -> str:
    """The canonical form of a valid transcript.

    A fenced header with the version quoted; heads, escapes and blanks as `Writer` writes them. A header with comments
    stays in its own lines, so that none is lost. Raises `ParseError` for a transcript that is not valid; ``fragment``:
    one without a header is accepted.
    """
    text = transcript if isinstance(transcript, str) else transcript.decode("utf-8", "surrogateescape")
    conversation = read(text, fragment=fragment)
    formatted = _written(conversation, text)
    if not _reads_as(formatted, conversation, fragment=fragment):
        raise RenderError("the canonical form of this transcript does not read as the same messages")
    return formatted


def _written(conversation: Conversation, text: str) -> str:
    envelope = _envelope(conversation)
    header = envelope.header
    writer = Writer(TranscriptEnvelope(header, "" if header is None else format_header(header, text)))
    called = {m.call_id: m for m in conversation.messages if m.is_call and m.call_id is not None}
    allowed = header is None or header.capabilities.allows_role(Role.TOOL)
    messages = (_without_spelling(message, called, rename=allowed) for message in conversation.messages)
    return "".join((writer.header(), *map(writer.write, messages), writer.close()))


def _without_spelling(message: Message, called: Mapping[str, Message], *, rename: bool) -> Message:
    """The message with nothing of how it was written but what cannot be written otherwise.

    A call id that no text carries is written only where a reply needs it: the reply that was written under its tool's
    name becomes ``tool``, unless the header's capabilities forbid that role (``rename`` False).
    """
    trivia = _trivia(message)
    if not rename and message.role is Role.TOOL:
        return _with(message, Trivia(head=trivia.head, synthetic=trivia.synthetic))
    call = called.get(message.call_id or "")
    answers_an_id = message.role is Role.TOOL and call is not None and _trivia(call).synthetic is None
    return _with(message, Trivia(synthetic=None if answers_an_id else trivia.synthetic))


def _with(message: Message, trivia: Trivia) -> Message:
    return replace(message, extra={**message.extra, "openchatml": trivia})


def _trivia(message: Message) -> Trivia:
    recorded = message.extra.get("openchatml")
    return recorded if isinstance(recorded, Trivia) else Trivia()


def _envelope(conversation: Conversation) -> TranscriptEnvelope:
    envelope = conversation.extra["openchatml"]
    assert isinstance(envelope, TranscriptEnvelope), "the reader gives each conversation its envelope"
    return envelope


def _reads_as(text: str, conversation: Conversation, *, fragment: bool) -> bool:
    try:
        again = read(text, fragment=fragment)
    except ParseError:
        return False
    return again.messages == conversation.messages and _envelope(again).header == _envelope(conversation).header


# -- the header -------------------------------------------------------------------------------------------------------


def format_header(header: DocumentHeader, text: str) -> str:
    """The canonical header of a transcript; its own lines between fences where comments would be lost otherwise."""
    scanner = HeaderScanner()
    scanner.feed(text, last=True)
    source = scanner.text[: scanner.yaml_end]
    canonical = spell_header(header)
    if not has_comment(source) and _reads_as_header(canonical, header):
        return canonical
    lines = source.replace("\r\n", "\n").strip("\n")
    lines = lines.lstrip(" \t\n").removeprefix("---\n") if lines.lstrip(" \t\n").startswith("---\n") else lines
    fenced = f"---\n{lines}\n---\n"
    quoted = _VERSION.sub(r'version: "\1"', fenced, count=1)
    return quoted if _reads_as_header(quoted, header) else fenced


def _reads_as_header(text: str, header: DocumentHeader) -> bool:
    scanner = HeaderScanner()
    scanner.feed(text, last=True)
    read = read_header(scanner.text[: scanner.yaml_end], Place())
    return not isinstance(read, Finding) and read == header


def has_comment(source: str) -> bool:
    """Whether YAML has a comment: a ``#`` that belongs to no token."""
    last = 0
    try:
        for token in yaml.scan(source, Loader=yaml.SafeLoader):
            first_line = source[token.start_mark.index : token.end_mark.index].split("\n", 1)[0]
            if "#" in source[last : token.start_mark.index] or (first_line[:1] in ("|", ">") and "#" in first_line):
                return True
            last = token.end_mark.index
    except yaml.YAMLError:
        return True
    return "#" in source[last:]
