"""Files of a conversation: those that go with a question, transcripts to save and to go on with, schemas."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from antiphon.cli.files import near_file, opened, output
from antiphon.cli.transcript import is_chat_request, read_transcript, transcript_json
from antiphon.conversation import Conversation, OpaquePart, ResponseFormat
from antiphon.conversion.convert import source_named
from antiphon.conversion.detect import detect
from antiphon.conversion.transcripts import TranscriptTarget
from antiphon.errors import ConfigError, ParseError, RequestError
from antiphon.grammar import check_schema

from .talk import ended

MOST_TEXT = 1 << 20
"""Bytes of a file that goes with a question."""
MOST_FILES = 16
MOST_TRANSCRIPT = 1 << 26
"""Bytes of a conversation that is loaded, and of a schema."""
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"%PDF": "a PDF document",
    b"OggS": "a sound",
    b"ID3": "a sound",
}
"""What files begin with that no model here reads."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that goes with a question."""

    name: str
    text: str

    def block(self) -> str:
        """The name, and the text in a fence that nothing in the text closes."""
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
        end = "" if self.text.endswith("\n") else "\n"
        return f"{self.name}:\n{fence}\n{self.text}{end}{fence}\n"


def with_files(question: str, files: tuple[TextFile, ...]) -> str:
    """The question with the files before it."""
    return "\n".join([*(file.block() for file in files), question])


def path_of(text: str) -> Path:
    """The path that a person typed, perhaps between quotes."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return Path(text[1:-1] if quoted else text).expanduser()


def read_text_file(path: Path, model: str) -> TextFile:
    """Raises `ConfigError` for a file that is too long, and for one that is no text, which ``model`` cannot read."""
    content = read_bytes(path, MOST_TEXT)
    kind = kind_of(content)
    if kind is not None:
        raise ConfigError(f"{path} is {kind}, and {model} reads text only", code="unreadable_input")
    try:
        return TextFile("standard input" if str(path) == "-" else path.name, content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8", code="unreadable_input") from None


def kind_of(content: bytes) -> str | None:
    """What a file is that is no text, by its first bytes; None for all else."""
    known = next((kind for magic, kind in IMAGES.items() if content.startswith(magic)), None)
    if content[:4] == b"RIFF":
        known = "a WebP image" if content[8:12] == b"WEBP" else "a sound"
    return known if b"\x00" in content else None


def read_bytes(path: Path, most: int) -> bytes:
    """A whole file of ``most`` bytes at most. Raises `ConfigError`, with near names for one that is not there."""
    try:
        with opened(path) as file:
            content = file.read(most + 1)
    except OSError as error:
        hint = near_file(path) if isinstance(error, FileNotFoundError) else None
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="unreadable_input", hint=hint) from None
    except ValueError as error:
        raise ConfigError(f"cannot read this name: {error}", code="unreadable_input") from None
    if len(content) > most:
        raise ConfigError(f"{path} has more than {most} bytes", code="unreadable_input", hint="Give a part of it.")
    return content


def save(conversation: Conversation, path: Path) -> None:
    """Writes the conversation as OpenChatML, or as JSON where the name ends so. Raises `AntiphonError`."""
    if not conversation.messages:
        raise ConfigError("there is nothing to save yet")
    as_json = path.suffix.lower() == ".json"
    content = transcript_json(conversation) if as_json else openchatml(conversation)
    with output(path) as file:
        file.write(content.encode())


def openchatml(conversation: Conversation) -> str:
    """The conversation as a transcript that the strict reader takes. Raises `RenderError` where none can be."""
    about = Conversation(settings=conversation.settings)
    target = TranscriptTarget()
    written = [target.open(about)[0]]
    for message in conversation.messages:
        written += target.write(message)
    written += target.close(about)
    return "".join(part.text for part in written)


def load(path: Path) -> Conversation:
    """The conversation of a file in any form that is read here. Raises `ConfigError`, `FormatError`, `RequestError`."""
    content = read_bytes(path, MOST_TRANSCRIPT)
    try:
        found = loaded(content)
    except ParseError as error:
        error.add_note(f"  in {path}")
        raise
    media = next((part for one in found.messages for part in one.parts if isinstance(part, OpaquePart)), None)
    if media is not None:
        raise RequestError(f"{path} has a part of kind {media.kind!r}, and models here read text only")
    if not found.messages:
        raise ParseError(f"{path} has no messages", code="transcript")
    return found


def loaded(content: bytes) -> Conversation:
    """Our own JSON and that of chat requests, OpenChatML, Harmony and the other forms that `convert` reads."""
    form = detect(content)
    if form == "json" and is_own_or_chat(content):
        return read_transcript(content)
    source = source_named(form)
    messages = [*source.feed(content), *source.close()]
    return Conversation(tuple(map(ended, messages)), settings=source.about.settings)


def is_own_or_chat(content: bytes) -> bool:
    """Whether a JSON text has messages with ``text``, as we write them, or with ``content``, as chat APIs have them."""
    try:
        source = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # whose error says where
    messages = source if isinstance(source, list) else source.get("messages") if isinstance(source, dict) else None
    own = isinstance(messages, list) and any(isinstance(one, dict) and "text" in one for one in messages)
    return own or is_chat_request({"messages": messages})


def schema_format(text: str) -> ResponseFormat:
    """The form of answers that a JSON Schema describes: the text itself, or a file of it.

    Raises `ConfigError` for what is no schema, `RequestError` for one beyond the limits.
    """
    content = text.encode() if text.startswith("{") else read_bytes(path_of(text), MOST_TRANSCRIPT)
    try:
        schema = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the schema is not JSON: {error}", code="unreadable_input") from None
    if not isinstance(schema, dict):
        raise ConfigError("a schema is a JSON object", code="unreadable_input")
    check_schema(schema, "schema")
    return ResponseFormat(kind="json_schema", name="answer", schema=schema)
