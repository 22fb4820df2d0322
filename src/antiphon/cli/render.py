"""``antiphon render``: a conversation as the exact prompt of a format."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.conversation import Conversation, Role
from antiphon.errors import AntiphonError, RequestError
from antiphon.formats import HistoryPolicy
from antiphon.formats.format import incidents_of
from antiphon.tokens import Control, Piece, encode_pieces, spell

from .completions import format_names
from .files import LINES, chunks
from .options import (
    ConfigOption,
    DialectOption,
    JsonOption,
    LimitOption,
    LinesOption,
    ModelOption,
    TemplateOption,
    TypesOption,
    as_json,
    check_limit,
    configure,
    print_json,
)
from .select_format import SelectedFormat, read_input, select_format, select_harmony
from .terminal import has_colour, pretty, say, tell
from .transcript import read_transcript


class Source(StrEnum):
    """``auto``: our own form, or a chat request where its messages have ``content``, or ``conversations``."""

    AUTO = "auto"
    HARMONY_JSON = "harmony-json"
    OPENAI = "openai"
    SHAREGPT = "sharegpt"


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
    lines: LinesOption = False,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> None:
    """Write a conversation as the prompt of a format. Control tokens are spelled out; --json marks them.

    Of a data set, each line is a prompt, as {"text": …} or {"ids": […]}. Exit code 1 where one failed.
    """
    if show and (ids or json):
        raise RequestError("--pretty is for people, --tokens and --json for programs: choose one")
    selected = select_harmony(format, model, dialect=dialect, types=types)
    if selected is None:
        loaded = configure(config, model=model, format=format, chat_template=chat_template)
        selected = select_format(loaded.config, named=format, ids=ids)
    lines = lines or file.suffix == LINES
    check_limit(limit, lines=lines)

    def pieces_of(text: bytes, place: str) -> list[Piece]:
        conversation = read_source(text, source)
        prompt = selected.format.render(conversation, reply_as=None if whole else Role.ASSISTANT, history=history)
        for incident in incidents_of(prompt):
            tell(f"{place}: the history was repaired: {incident.code}", file=sys.stderr)
        return list(prompt)

    if lines:
        if show:
            raise RequestError("--pretty shows one conversation")
        write_lines(file, limit, pieces_of, selected, ids=ids, json=json)
        return
    pieces = pieces_of(read_input(file), str(file))
    if show:
        colour = has_colour()
        (print if colour else tell)(*pretty(pieces, selected.tokenizer, colour=colour), sep="")
    else:
        write(pieces, selected, ids=ids, json=json)


def write_lines(
    file: Path,
    limit: int | None,
    pieces_of: Callable[[bytes, str], list[Piece]],
    selected: SelectedFormat,
    *,
    ids: bool,
    json: bool,
) -> None:
    """Writes a prompt for each line that has a conversation, and reports each line that has none."""
    from antiphon.conversion.convert import numbered_lines  # the other forms take long to import

    failed = False
    for number, line in islice(numbered_lines(chunks(file)), limit):
        place = f"{file}:{number}"
        try:
            prompt = prompt_json(pieces_of(line, place), selected, ids=ids, complete=json)
        except AntiphonError as error:
            failed = True
            say(f"{place}: {error.message}  [{error.code}]{f'  {error.hint}' if error.hint else ''}")
        else:
            tell(as_json(prompt, indent=False))
    if failed:
        raise typer.Exit(1)


def read_source(text: bytes, source: Source) -> Conversation:
    match source:
        case Source.AUTO if b'"conversations"' in text and b'"messages"' not in text:
            return read_source(text, Source.SHAREGPT)
        case Source.AUTO:
            return read_transcript(text)
        case Source.HARMONY_JSON:
            from antiphon.formats.harmony import read_conversation

            return read_conversation(text)
        case Source.OPENAI:
            return read_transcript(text, chat=True)
        case Source.SHAREGPT:
            from antiphon.conversion.convert import source_named

            reader = source_named(source)
            reader.feed(text)
            messages = tuple(reader.close())
            return replace(reader.about, messages=messages)


def write(pieces: list[Piece], selected: SelectedFormat, *, ids: bool, json: bool) -> None:
    prompt = prompt_json(pieces, selected, ids=ids, complete=json)
    if json:
        print_json(prompt)
    elif "ids" in prompt:
        tell(*prompt["ids"])
    else:
        tell(prompt["text"])


def prompt_json(pieces: list[Piece], selected: SelectedFormat, *, ids: bool, complete: bool) -> dict[str, Any]:
    """The prompt for programs: its text, or its ids where the format has a vocabulary; or all there is of it."""
    numbers = {"ids": encode_pieces(pieces, selected.tokenizer)} if ids and selected.tokenizer else {}
    if not complete:
        return numbers or {"text": spell(pieces)}
    listed = [{"control": p.spelling} if isinstance(p, Control) else {"text": str(p)} for p in pieces]
    return {"format": selected.format.name, "text": spell(pieces), "pieces": listed, **numbers}
