"""The vectors of the Harmony reference, and how each row is rendered and parsed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

from antiphon.conversation import Incident, Message, MessageEnded, ParserEvent, Role
from antiphon.errors import ParseError
from antiphon.formats import HistoryPolicy, Parser
from antiphon.formats.harmony import Harmony, ReferenceParser, read_conversation
from antiphon.formats.harmony.controls import ENDS
from antiphon.formats.harmony.reference import ReferenceMessage
from antiphon.tokens import Piece, PieceDecoder, Tokenizer, encode_pieces
from kit.corpora import corpus_file

Row = dict[str, Any]
Dialect = Literal["a", "b"]
DIALECTS: dict[Dialect, str] = {"a": "", "b": "_oss"}


def rows(name: str) -> Iterator[Row]:
    """The rows of one file of the corpora."""
    with corpus_file(f"harmony/{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def render(harmony: Harmony, row: Row) -> Iterator[Piece]:
    """What a row asks for."""
    conversation = read_conversation(row["conversation"])
    options = row["options"]
    history = HistoryPolicy.REFERENCE if options.get("auto_drop_analysis") else HistoryPolicy.KEEP_ALL
    match row["op"]:
        case "render_conversation_for_completion":
            return harmony.render(conversation, reply_as=Role(options["next_turn_role"]), history=history)
        case "render_conversation":
            return harmony.render(conversation, reply_as=None, history=history)
        case "render_conversation_for_training":
            return harmony.render_for_training(conversation, history=history)
        case other:
            raise AssertionError(f"unknown op {other}")


def role_of(row: Row) -> Role | None:
    return Role(row["role"]) if row["role"] else None


def read_strictly(row: Row, tokenizer: Tokenizer, dialect: Dialect) -> list[Row] | ParseError:
    """The messages in the reference's form, or our error."""
    reader = ReferenceParser(tokenizer.piece, role_of(row), row["strict"], dialect)
    try:
        for id in row["tokens"]:
            reader.process(id)
        reader.process_eos()
    except ParseError as error:
        return error
    return [as_json(message) for message in reader.messages]


def as_json(message: ReferenceMessage) -> Row:
    envelope = message.envelope
    fields = {
        "role": envelope.role.value,
        "name": envelope.name,
        "recipient": envelope.recipient,
        "content": message.text,
        "channel": envelope.channel,
        "content_type": envelope.content_type,
    }
    return {key: value for key, value in fields.items() if value is not None}


def events(parser: Parser, ids: Sequence[int], tokenizer: Tokenizer, cuts: Iterable[int] = ()) -> list[ParserEvent]:
    """What a parser says of ids that arrive in chunks cut at ``cuts``."""
    decoder = PieceDecoder(tokenizer)
    parsed: list[ParserEvent] = []
    borders = [0, *sorted(cuts), len(ids)]
    for start, end in pairwise(borders):
        parsed += parser.feed(decoder.feed(ids[start:end]))
    return [*parsed, *parser.feed(decoder.close()), *parser.close()]


def repeated(harmony: Harmony, messages: Iterable[Message], tokenizer: Tokenizer) -> list[int]:
    """The messages with the ends that they had, as ids."""
    ends = {end: control for control, end in ENDS.items()}
    ids: list[int] = []
    for message in messages:
        end = [ends[message.end]] if message.end in ends else []
        ids += encode_pieces([*harmony.messages.opened(message), *end], tokenizer)
    return ids


def ended(parsed: Iterable[ParserEvent]) -> list[Message]:
    return [event.message for event in parsed if isinstance(event, MessageEnded)]


def codes(parsed: Iterable[ParserEvent]) -> list[str]:
    return [event.code for event in parsed if isinstance(event, Incident)]
