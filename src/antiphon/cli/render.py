"""``antiphon render``: a conversation as the exact prompt of a format."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.conversation import Conversation, Role
from antiphon.errors import RequestError
from antiphon.formats import HistoryPolicy
from antiphon.formats.format import incidents_of
from antiphon.tokens import Control, Piece, encode_pieces, spell

from .completions import format_names
from .options import (
    ConfigOption,
    DialectOption,
    JsonOption,
    ModelOption,
    TemplateOption,
    TypesOption,
    configure,
    print_json,
)
from .select_format import SelectedFormat, read_input, select_format, select_harmony
from .terminal import has_colour, pretty, tell
from .transcript import read_transcript


class Source(StrEnum):
    """``auto``: our own form, or a chat request where its messages have ``content``."""

    AUTO = "auto"
    HARMONY_JSON = "harmony-json"
    OPENAI = "openai"


def command(
    file: Annotated[Path, typer.Argument(help="A conversation as JSON; - reads standard input.")],
    source: Annotated[Source, typer.Option("--from", help="The form that the conversation is in.")] = Source.AUTO,
    format: Annotated[
        str | None,
        typer.Option(
            "--to", "--format", help="The format to write, instead of the model's own.", autocompletion=format_names
        ),
    ] = None,
    dialect: DialectOption = None,
    types: TypesOption = None,
    history: Annotated[HistoryPolicy, typer.Option(help="Which earlier reasoning stays.")] = HistoryPolicy.GUIDE,
    model: ModelOption = None,
    chat_template: TemplateOption = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="The conversation alone, without the start of a reply.")
    ] = False,
    ids: Annotated[bool, typer.Option("--tokens", "--ids", help="Token ids instead of text.")] = False,
    show: Annotated[bool, typer.Option("--pretty", help="Show controls, envelopes and texts apart, with ids.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write a conversation as the prompt of a format. Control tokens are spelled out; --json marks them."""
    if show and (ids or json):
        raise RequestError("--pretty is for people, --tokens and --json for programs: choose one")
    selected = select_harmony(format, model, dialect=dialect, types=types)
    if selected is None:
        loaded = configure(config, model=model, format=format, chat_template=chat_template)
        selected = select_format(loaded.config, named=format, ids=ids)
    conversation = read_source(read_input(file), source)
    prompt = selected.format.render(conversation, reply_as=None if whole else Role.ASSISTANT, history=history)
    for incident in incidents_of(prompt):
        tell(f"{file}: the history was repaired: {incident.code}", file=sys.stderr)
    pieces = list(prompt)
    if show:
        colour = has_colour()
        (print if colour else tell)(*pretty(pieces, selected.tokenizer, colour=colour), sep="")
    else:
        write(pieces, selected, ids=ids, json=json)


def read_source(text: bytes, source: Source) -> Conversation:
    match source:
        case Source.AUTO:
            return read_transcript(text)
        case Source.HARMONY_JSON:
            from antiphon.formats.harmony import read_conversation

            return read_conversation(text)
        case Source.OPENAI:
            return read_transcript(text, chat=True)


def write(pieces: list[Piece], selected: SelectedFormat, *, ids: bool, json: bool) -> None:
    numbers = encode_pieces(pieces, selected.tokenizer) if ids and selected.tokenizer else None
    if json:
        listed = [{"control": p.spelling} if isinstance(p, Control) else {"text": str(p)} for p in pieces]
        prompt = {"format": selected.format.name, "text": spell(pieces), "pieces": listed}
        print_json(prompt | ({"ids": numbers} if ids else {}))
    elif numbers is not None:
        tell(*numbers)
    else:
        tell(spell(pieces))
