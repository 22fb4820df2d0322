"""``antiphon parse``: a model's raw reply, or a whole conversation as a model sees it, back into messages."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from antiphon.conversation import Incident, Message, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.conversation.json import message_json
from antiphon.errors import ParseError, Position, RequestError
from antiphon.formats import Format
from antiphon.tokens import ControlScanner, Piece, PieceDecoder, Tokenizer

from .completions import format_names
from .excerpt import PlacedPieces, RecentText
from .files import chunks
from .options import ConfigOption, DialectOption, JsonOption, ModelOption, TemplateOption, configure, print_json
from .select_format import SelectedFormat, select_format, select_harmony
from .terminal import has_colour, pretty, say, tell
from .transcript import incident_form

# What `parse` reads, while it comes: text with controls spelled out, or token ids.

HEAD = 24
"""So many characters of the input decide whether it is ids, and whether it is a transcript."""

_BEGINS_WITH_A_CONTROL = re.compile(r"\s*\[?\s*(?:199999|2000(?:0\d|1[0-8]))(?!\w)")
_BORDER = re.compile(r"[\s,\[\]]+")


def decoded(parts: Iterable[bytes]) -> Iterator[str]:
    """The text as it comes. An input that is empty, and bytes that are U+FFFD in it, are reported on stderr."""
    decoder = getincrementaldecoder("utf-8")("replace")
    whole, any_text = True, False
    for part in chain(parts, [b""]):
        text = decoder.decode(part, final=not part)
        if whole and text.count("\ufffd") > part.count("\ufffd".encode()):
            whole = False
            say("warning: bytes that are no UTF-8 are read as \ufffd")
        any_text = any_text or bool(text)
        yield text
    if not any_text:
        say("warning: the input is empty")


def first(source: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The source's first characters, `HEAD` at least where it has as many; and the source, whole."""
    head = ""
    for text in source:
        head += text
        if len(head.lstrip()) >= HEAD:
            break
    return head, chain([head], source)


def spelled_pieces(source: Iterator[str], format: Format) -> Iterator[list[Piece]]:
    """The pieces of a text whose control spellings are controls."""
    scanner = ControlScanner(format.controls)
    for text in source:
        yield scanner.feed(text)
    yield scanner.close()


def decoded_pieces(source: Iterator[str], tokenizer: Tokenizer) -> Iterator[list[Piece]]:
    """The pieces of ids: a JSON array, or numbers with blanks between them. Raises `ParseError` for an unknown one."""
    decoder = PieceDecoder(tokenizer)
    for ids in read_ids(source):
        if unknown := next((id for id in ids if not tokenizer.piece(id)), None):
            hint = "Name the --model whose ids these are."
            raise ParseError(f"the vocabulary {tokenizer.name} has no token {unknown}", code="unknown_id", hint=hint)
        yield decoder.feed(ids)
    yield decoder.close()


def read_ids(source: Iterator[str]) -> Iterator[list[int]]:
    """The ids as they come; a number is whole when something follows it. Raises `ParseError` where there is none."""
    partial, place = "", 0
    for text in chain(source, [" "]):
        *words, partial = _BORDER.split(partial + text)
        ids: list[int] = []
        for word in filter(None, words):
            ids.append(_id(word, place))
            place += 1
        if ids:
            yield ids


def _id(word: str, place: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 20):
        what = f"{word[:40]!r} is no token id"
        hint = "Ids are a JSON array of numbers, or numbers with blanks between them."
        raise ParseError(what, code="not_an_id", position=Position(path=f"$[{place}]"), hint=hint)
    return int(word)


def command(
    file: Annotated[Path, typer.Argument(help="The text or the ids; - reads standard input.")],
    format: Annotated[
        str | None,
        typer.Option("--from", "--format", help="The format that the text is in.", autocompletion=format_names),
    ] = None,
    dialect: DialectOption = None,
    model: ModelOption = None,
    chat_template: TemplateOption = None,
    tokens: Annotated[bool, typer.Option("--tokens", "--ids", help="The input is token ids.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="A whole conversation, and not one reply.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on what would be repaired (exit code 1).")] = False,
    show: Annotated[bool, typer.Option("--pretty", help="Show the input itself: controls, envelopes, texts.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Read raw model output back into messages, as it comes. What had to be repaired is listed as incidents."""
    if show and json:
        raise RequestError("--pretty is for people, --json for programs: choose one")
    selected = select_harmony(format, model, dialect=dialect)
    recent = RecentText()
    source = recent.watch_text(decoded(chunks(file)))
    if selected is not None and not tokens:
        head, source = first(source)
        tokens = _BEGINS_WITH_A_CONTROL.match(head) is not None
    if selected is None:
        loaded = configure(config, model=model, format=format, chat_template=chat_template)
        selected = select_format(loaded.config, named=format, ids=tokens)
    if selected.format.name == "openchatml" and not tokens:
        from antiphon.formats.openchatml import begins_transcript  # other formats need not wait for it

        begun, source = first(source)
        whole = whole or begins_transcript(begun)
    pieces = pieces_of(source, selected, ids=tokens)
    if show:
        flat = (piece for some in pieces for piece in some)
        for shown in pretty(flat, selected.tokenizer, in_reply=not whole, colour=has_colour()):
            tell(shown, end="", flush=True)
        tell()
        return
    placed = PlacedPieces(pieces, None if tokens else recent)
    with placed.shown_with_errors():
        events = read(selected.format, placed, whole=whole, strict=strict)
        if json:
            whole_reply = list(events)
            messages = [message_json(event.message) for event in whole_reply if isinstance(event, MessageEnded)]
            incidents = [incident_form(event) for event in whole_reply if isinstance(event, Incident)]
            print_json({"messages": messages, "incidents": incidents})
        else:
            print_messages(events, placed)


def pieces_of(source: Iterator[str], selected: SelectedFormat, *, ids: bool) -> Iterator[list[Piece]]:
    if not ids:
        return spelled_pieces(source, selected.format)
    assert selected.tokenizer is not None, "ids select the model's vocabulary"
    return decoded_pieces(source, selected.tokenizer)


def read(
    format: Format, pieces: Iterable[list[Piece]], *, whole: bool = False, strict: bool = False
) -> Iterator[ParserEvent]:
    """The parser's events, as the pieces come. ``strict`` raises `ParseError`."""
    parser = format.parser(reply_as=None if whole else Role.ASSISTANT, strict=strict)
    for some in pieces:
        yield from parser.feed(some)
    yield from parser.close()


def print_messages(events: Iterable[ParserEvent], placed: PlacedPieces) -> None:
    """Prints each message once it is complete, and each repair, with its place, once it is made."""
    for event in events:
        match event:
            case MessageEnded(message):
                tell(f"{header(message)}\n{message.text}\n", flush=True)
            case Incident():
                tell(f"! {event.code} at {event.position}: {event.text!r}", flush=True)
                if source := placed.excerpt():
                    tell(source, flush=True)
            case MessageStarted() | TextDelta():
                pass


def header(message: Message) -> str:
    """A message's header on one line: ``assistant → functions.f  channel=commentary  json``."""
    who = f"{message.role}:{message.name}" if message.name else str(message.role)
    to = f" → {message.recipient}" if message.recipient else ""
    tags = [f"{name}={getattr(message, name)}" for name in ("channel", "intent", "content_type", "call_id", "end")
            if getattr(message, name)]  # fmt: skip
    return f"[{who}{to}] " + " ".join(tags)
