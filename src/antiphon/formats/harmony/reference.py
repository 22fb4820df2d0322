"""The reference's parser, state for state and error for error (R-06), for strict mode and `antiphon.compat`."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from antiphon.conversation import Role
from antiphon.errors import ParseError
from antiphon.tokens import Control

from .controls import CHANNEL, CONSTRAIN, ENDS, MESSAGE, START, Dialect

START_ID = 200006
BLANK = " \t\n\r\f"
"""Between the words of a header."""
SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space, which ends a channel and is cut off a header's ends; Python's blanks are four more."""
REPLACEMENT = "\ufffd"
UNFINISHED = "unexpected end of data"
"""Python's reason for a UTF-8 error that more bytes may still repair."""


class ReferenceState(StrEnum):
    """The reference's states, by its names."""

    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"


class ReferenceEnvelope(msgspec.Struct, frozen=True):
    """A header as the reference reads it; ``content_type`` keeps its ``<|constrain|>``."""

    role: Role
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None


class ReferenceMessage(msgspec.Struct, frozen=True):
    """A finished message."""

    envelope: ReferenceEnvelope
    text: str


@dataclass(slots=True)
class ReferenceParser:
    """Takes one token at a time. ``piece_of`` gives an id's bytes or control, b"" where there is none.

    Raises `ParseError` with the reference's messages; as there, an error in a header leaves it expecting a start.
    ``strict`` False is the reference's own lenient mode.
    """

    piece_of: Callable[[int], bytes | Control]
    role: Role | None = None
    strict: bool = True
    dialect: Dialect = "a"
    state: ReferenceState = ReferenceState.EXPECT_START
    envelope: ReferenceEnvelope | None = None
    delta: str | None = None
    messages: list[ReferenceMessage] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """The texts of the open message in the order in which they were decoded: none, one or two a token."""
    _header: list[tuple[int | str, bytes | Control]] = field(default_factory=list)
    _joined: tuple[int, str] = (0, "")
    _pending: bytes = b""
    _undecodable: bool = False

    def __post_init__(self) -> None:
        if self.role is not None:
            self.state = ReferenceState.HEADER

    @property
    def content(self) -> str:
        """The text of the open message so far."""
        count, text = self._joined
        if count < len(self.texts):
            text = "".join((text, *self.texts[count:]))
            self._joined = len(self.texts), text
        return text

    @property
    def header(self) -> list[int | str]:
        """The tokens of the open header so far."""
        return [token for token, _ in self._header]

    def open(self, envelope: ReferenceEnvelope) -> None:
        """Continue in the content of a message, as behind its ``<|message|>``."""
        self.role, self.envelope, self.state = None, envelope, ReferenceState.CONTENT
        self.texts, self._joined, self._pending, self._undecodable = [], (0, ""), b"", False

    def add(self, text: str) -> bool:
        """Takes a token that is a whole text. Returns False where no message is open, or bytes before it wait."""
        if self.state is not ReferenceState.CONTENT or self._pending or self._undecodable:
            return False
        self.delta = text
        self.texts.append(text)
        return True

    def process(self, id: int) -> None:
        """One more token."""
        self.step(id, self.piece_of(id))

    def step(self, token: int | str, piece: bytes | Control) -> None:
        """One more token by what it stands for; an error calls it ``token``."""
        match self.state:
            case ReferenceState.CONTENT:
                self._in_content(piece)
            case ReferenceState.HEADER:
                self._in_header(token, piece)
            case ReferenceState.EXPECT_START:
                self.delta = None
                if piece != START:
                    raise ParseError(
                        f"Unexpected token {token} while expecting start token {START_ID}", code="unexpected_token"
                    )
                self.state, self._header = ReferenceState.HEADER, []

    def process_eos(self) -> None:
        """The stream is over."""
        self.delta = None
        match self.state:
            case ReferenceState.CONTENT:
                self._end()
            case ReferenceState.HEADER:
                raise ParseError("Unexpected EOS while waiting for message header to complete", code="unexpected_eos")
            case ReferenceState.EXPECT_START:
                pass

    def _in_header(self, token: int | str, piece: bytes | Control) -> None:
        self.delta = None
        if piece == MESSAGE:
            header, self._header = self._header, []
            self.state = ReferenceState.EXPECT_START
            try:
                text = _decoded(header)
            except _UndecodableError:
                raise ParseError("could not decode header", code="undecodable_header") from None
            self.open(read_envelope(text, self.role, self.dialect))
        elif not self.strict and piece in ENDS:
            self._end_header()
        else:
            self._header.append((token, piece))

    def _end_header(self) -> None:
        """The only recovery of the lenient mode: a first header without ``<|message|>`` is the content."""
        if self.role is not None and self._header:
            try:
                text = _decoded(self._header)
            except _UndecodableError as error:
                raise ParseError(f"Could not decode tokens: {error}", code="undecodable_header") from None
            channel, text = cut_channel(text, self.dialect)
            words = _header_words(text)
            content = " ".join(words[1:] if words[:1] == [self.role] else words)
            self.messages.append(ReferenceMessage(ReferenceEnvelope(self.role, channel=channel), content))
        self.state, self._header, self.role = ReferenceState.EXPECT_START, [], None

    def _in_content(self, piece: bytes | Control) -> None:
        if isinstance(piece, Control):
            if piece in ENDS:
                self.delta = None
                self._end()
                return
            piece = piece.spelling.encode()
        texts = self._decode(piece)
        self.delta = "".join(texts) if texts else None
        self.texts += texts

    def _decode(self, data: bytes) -> list[str]:
        """The texts that this token completes; at most one bad sequence a token becomes U+FFFD, a text of its own."""
        self._undecodable |= not data
        if self._undecodable:
            return []
        data = self._pending + data
        try:
            self._pending = b""
            return [data.decode()]
        except UnicodeDecodeError as error:
            valid = [data[: error.start].decode()] if error.start else []
            if error.reason == UNFINISHED:
                self._pending = data[error.start :]
                return valid
            self._pending = data[error.end :]
            return [*valid, REPLACEMENT]

    def _end(self) -> None:
        assert self.envelope is not None
        if self._undecodable:
            self.texts.append(REPLACEMENT)
        if self._pending:
            self.texts.append(self._pending.decode("utf-8", "replace"))
        self.messages.append(ReferenceMessage(self.envelope, self.content))
        self.state, self.envelope, self.texts, self._joined = ReferenceState.EXPECT_START, None, [], (0, "")


class _UndecodableError(Exception):
    """Ids that are no text; the message is the reference's."""


def _decoded(header: list[tuple[int | str, bytes | Control]]) -> str:
    pieces = []
    for token, piece in header:
        if not piece:
            raise _UndecodableError(f"Invalid token error: Invalid token for decoding: {token}")
        pieces.append(piece.spelling.encode() if isinstance(piece, Control) else piece)
    try:
        return b"".join(pieces).decode()
    except UnicodeDecodeError as error:
        raise _UndecodableError(f"Invalid utf-8 sequence: {utf8_fault(error)}") from None


def utf8_fault(error: UnicodeDecodeError) -> str:
    """The fault of bytes that are no UTF-8, in the reference's words."""
    if error.reason == UNFINISHED:
        return f"incomplete utf-8 byte sequence from index {error.start}"
    return f"invalid utf-8 sequence of {error.end - error.start} bytes from index {error.start}"


def read_envelope(text: str, given: Role | None, dialect: Dialect) -> ReferenceEnvelope:
    """A header's text → its fields, by the reference's rules. Raises `ParseError` with its messages."""
    channel, text = cut_channel(text, dialect)
    words = _header_words(text)
    role, name = (given, None) if given is not None else _author(words)
    if words and words[0] == role.value:
        words.pop(0)
    recipient, content_type = _addressed(words)
    if words:
        raise ParseError(
            f"unexpected tokens remaining in message header: Some({_quoted(' '.join(words))})", code="header_leftover"
        )
    return ReferenceEnvelope(role, name, recipient, channel, content_type)


def cut_channel(text: str, dialect: Dialect) -> tuple[str | None, str]:
    """The first channel of a header, and the header without it (dialect b: without any)."""
    channel = None
    while CHANNEL.spelling in text:
        before, _, after = text.partition(CHANNEL.spelling)
        end = next((i for i, c in enumerate(after) if c in SPACE or c == "<"), len(after))
        if not end and channel is None:
            raise ParseError("channel marker present but no channel value found in header", code="empty_channel")
        channel = channel if channel is not None else after[:end]
        text = before + after[end:]
        if dialect == "a":
            break
    return channel, text


def _author(words: list[str]) -> tuple[Role, str | None]:
    """The role; a word that is no role names a tool, if anything follows it."""
    if not words:
        raise ParseError("message header did not contain a role", code="missing_role")
    word = words[0]
    if word in tuple(Role):
        return Role(word), word if word == Role.TOOL else None
    if len(words) == 1 and not word.startswith("to="):
        raise ParseError(f"Unknown role: {word}", code="unknown_role")
    words.pop(0)
    return Role.TOOL, word


def _addressed(words: list[str]) -> tuple[str | None, str | None]:
    """Recipient and content type, taken off the end of the words."""
    if not words:
        return None, None
    last = words.pop()
    if last.startswith("to=") or not words:
        return last.removeprefix("to="), None
    return words.pop().removeprefix("to="), last


def _header_words(text: str) -> list[str]:
    text = text.strip(SPACE).replace(CONSTRAIN.spelling, f" {CONSTRAIN.spelling}")
    for blank in BLANK:
        text = text.replace(blank, " ")
    return [word for word in text.split(" ") if word]


def _quoted(text: str) -> str:
    """A string as Rust's debug format shows it."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    match character:
        case '"' | "\\":
            return f"\\{character}"
        case "\0":
            return "\\0"
        case _ if character.isprintable() and unicodedata.category(character) not in ("Mn", "Me"):
            return character
        case _:
            return f"\\u{{{ord(character):x}}}"
