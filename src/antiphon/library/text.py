"""Prompts, replies and transcripts without a model: render, parse, convert, validate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile
from typing import Any

from antiphon.api.chat import conversation as chat_wire
from antiphon.catalog.known_formats import KNOWN_CONTROLS, known_formats
from antiphon.conversation import Conversation, Incident, Message, MessageEnded, ParserEvent, Role
from antiphon.conversion import Conversion, Loss
from antiphon.errors import AntiphonError, Position, RequestError
from antiphon.formats import Format, HistoryPolicy
from antiphon.formats import openchatml as transcripts
from antiphon.formats.format import incidents_of
from antiphon.tokens import ControlScanner, Piece, PieceDecoder, Tokenizer, encode_pieces, o200k_harmony, spell

from .checks import check, checked, refused
from .options import ChatInput, below, read_input


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. ``pieces`` are text (`str`) and control tokens (`Control`).

    ``ids`` are the model's token ids; None where a format was named without a model, and so without a vocabulary.
    ``incidents`` tell what was repaired in a history that the format cannot write as it is.
    """

    pieces: tuple[Piece, ...]
    ids: tuple[int, ...] | None = None
    incidents: tuple[Incident, ...] = ()

    @property
    def text(self) -> str:
        """The prompt with its control tokens spelled out, for people: what a user typed may spell the same."""
        return spell(list(self.pieces))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reply that was read: its messages, and what had to be repaired in it."""

    messages: tuple[Message, ...]
    incidents: tuple[Incident, ...]


@dataclass(frozen=True, slots=True)
class Converted:
    """A conversation in another form, what that form cannot hold, and what was repaired while reading."""

    text: str
    losses: tuple[Loss, ...]
    warnings: tuple[str, ...]


@checked
def render(
    messages: ChatInput,
    format: str | Format = "harmony",
    *,
    system: str | None = None,
    reply: bool = True,
    history: HistoryPolicy = HistoryPolicy.GUIDE,
) -> Prompt:
    """The exact prompt of a conversation in a format, by its name ("harmony", "openchatml", "chatml", "qwen" …).

    ``reply`` False leaves out the beginning of the model's answer. ``history`` says which earlier reasoning stays.
    For gpt-oss ("harmony") the prompt has ids. Raises `NotFoundError` for an unknown format, `RequestError` or
    `RenderError` for a conversation that it cannot represent.
    """
    chosen, tokenizer = _named(format)
    reply_as = Role.ASSISTANT if reply else None
    prompt = chosen.render(read_input(messages, system=system), reply_as=reply_as, history=history)
    pieces = tuple(prompt)
    ids = None if tokenizer is None else tuple(encode_pieces(pieces, tokenizer))
    return Prompt(pieces, ids, incidents_of(prompt))


@checked
def parse(
    reply: str | Sequence[int],
    format: str | Format = "harmony",
    *,
    prompt: Prompt | None = None,
    whole: bool = False,
    strict: bool = False,
) -> Parsed:
    """A model's raw reply as messages: text with its controls spelled out, or token ids (of gpt-oss's vocabulary).

    ``prompt`` is what it replied to, where that opened the reply (a think tag). ``whole`` reads a whole conversation
    instead of one reply. What is malformed is repaired and listed in ``incidents``; with ``strict`` it raises
    `ParseError`.
    """
    chosen, tokenizer = _named(format)
    parser = chosen.parser(
        reply_as=None if whole else Role.ASSISTANT, prompt=prompt.pieces if prompt else (), strict=strict
    )
    events: list[ParserEvent] = [*parser.feed(_pieces(reply, chosen, tokenizer)), *parser.close()]
    return Parsed(
        tuple(event.message for event in events if isinstance(event, MessageEnded)),
        tuple(event for event in events if isinstance(event, Incident)),
    )


@checked
def convert(source: str | bytes, to: str, *, form: str | None = None, lenient: bool = False) -> Converted:
    """A conversation in another form: "openchatml", "harmony", "harmony-json", "chat", "responses", or a template's.

    ``form`` is the form of ``source``; None finds it out. Raises `FormatError` for what cannot be read, or not be
    written in the other form; with ``lenient`` a transcript is repaired where that is possible.
    """
    losses: list[Loss] = []
    warnings: list[str] = []
    conversion = Conversion(to=to, source=form, lenient=lenient, on_loss=losses.append, on_warning=warnings.append)
    data = _utf8(source) if isinstance(source, str) else source
    try:
        text = b"".join(conversion.run([data])).decode("utf-8", "surrogateescape")
    except AntiphonError as error:
        if error.hint is not None:
            error.hint = error.hint.replace("--lenient", "lenient=True").replace("--from", "form=…")
        if error.code == "unknown_form" and isfile(data):
            error.hint = f"{source!r} is the name of a file; give its text: pathlib.Path(…).read_text()."
        raise
    return Converted(text, tuple(losses), tuple(warnings))


@checked
def validate(transcript: str | bytes | Iterable[bytes]) -> list[transcripts.Finding]:
    """Returns the findings in an OpenChatML transcript, in order; an empty list for a valid one.

    ``transcript`` is the text, its bytes, or its bytes part by part (an open file).
    """
    parts = transcript if isinstance(transcript, str | bytes) else _checked_parts(transcript)
    return list(transcripts.validate(parts))


def read_chat(body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | bytes) -> Conversation:
    """The conversation of a chat completions body, or of its messages alone: as a value, or as JSON text.

    Messages, ``tools``, ``response_format`` and ``reasoning_effort`` are read as `POST /v1/chat/completions` reads
    them; what only a server can act on (sampling, streaming) is checked and left out. With ``tool_choice`` none there
    are no tools. Raises `RequestError` with the field's JSON path, or for text that is no JSON.
    """
    check(body, str | bytes | Mapping[str, Any] | Sequence[Mapping[str, Any]], "body")
    try:
        return chat_wire.read_chat(body)
    except RequestError as error:
        if error.position is not None and error.position.path:
            raise
        raise below(error, "body") from None


def _checked_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    for i, part in enumerate(parts):
        check(part, bytes, f"transcript[{i}]")
        yield part


def _utf8(text: str) -> bytes:
    """The text's bytes; what `surrogateescape` made of bytes is these bytes again. Raises `RequestError`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        what = f"a lone surrogate at character {error.start} stands for no byte."
        raise refused("source", what, "Give the bytes as they are.") from None


def _named(format: str | Format) -> tuple[Format, Tokenizer | None]:
    """A format by its name, and the vocabulary that comes with it: only gpt-oss's does."""
    if not isinstance(format, str):
        return format, None
    # A transcript is text: without a vocabulary its controls are spelled out, and what spells one is escaped.
    controls = () if format == "openchatml" else KNOWN_CONTROLS
    return known_formats().get(format, controls), o200k_harmony() if format == "harmony" else None


def _pieces(reply: str | Sequence[int], format: Format, tokenizer: Tokenizer | None) -> list[Piece]:
    if isinstance(reply, str):
        scanner = ControlScanner(format.controls)
        return [*scanner.feed(reply), *scanner.close()]
    if tokenizer is None:
        raise RequestError(
            f"the format {format.name!r} has no vocabulary of its own to read ids with",
            code="invalid_type",
            position=Position(path="reply"),
            hint="Give the reply's text, or decode the ids with the model's tokenizer first.",
        )
    for i, id in enumerate(reply):
        if not 0 <= id < tokenizer.size:
            what = f"the vocabulary of {format.name!r} has no token {id}."
            raise refused(f"reply[{i}]", what, f"Its ids are 0 … {tokenizer.size - 1}.")
    decoder = PieceDecoder(tokenizer)
    return [*decoder.feed(reply), *decoder.close()]
