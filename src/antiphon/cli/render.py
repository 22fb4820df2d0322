"""``antiphon render``: a conversation as the exact prompt of a format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import AntiphonError, RequestError
from antiphon.formats import HistoryPolicy
from antiphon.formats.format import incidents_of
from antiphon.tokens import Control, Piece, PieceDecoder, Tokenizer, decode, encode_pieces, spell

from .completions import format_names
from .files import LINES, chunks, error_line, named_in_errors
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
    print_table,
)
from .select_format import SelectedFormat, read_input, select_format, select_harmony
from .terminal import has_colour, legend, owned, pretty, say, tell
from .transcript import read_transcript

if TYPE_CHECKING:
    from antiphon.generation.passages import Passage
    from antiphon.generation.sampled import Kept, Written


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
    mask: Annotated[
        bool, typer.Option("--mask", help="Who wrote each id of the whole conversation, and which the model samples.")
    ] = False,
    config: ConfigOption = None,
    lines: LinesOption = False,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> None:
    """Write a conversation as the prompt of a format. Control tokens are spelled out; --json marks them.

    Of a data set, each line is a prompt, as {"text": …} or {"ids": […]}. Exit code 1 where one failed.
    """
    lines = lines or file.suffix == LINES
    if mask:
        check_alone({"--pretty": show, "--tokens": ids, "--whole": whole, "--lines": lines})
    elif show:
        check_for_people(ids=ids, json=json, lines=lines)
    selected = select_harmony(format, model, dialect=dialect, types=types)
    if selected is None:
        loaded = configure(config, model=model, format=format, chat_template=chat_template)
        selected = select_format(loaded.config, named=format, ids=ids or mask)
    check_limit(limit, lines=lines)

    def pieces_of(text: bytes, place: str) -> list[Piece]:
        conversation = read_source(text, source, place)
        prompt = selected.format.render(conversation, reply_as=None if whole else Role.ASSISTANT, history=history)
        for incident in incidents_of(prompt):
            tell(f"{place}: the history was repaired: {incident.code}", file=sys.stderr)
        return list(prompt)

    if lines:
        write_lines(file, limit, pieces_of, selected, ids=ids, json=json)
        return
    with named_in_errors(file):
        if mask:
            show_mask(read_source(read_input(file), source, str(file)), selected, history, json=json)
        elif show:
            shown = pretty(pieces_of(read_input(file), str(file)), selected.tokenizer, colour=has_colour())
            (print if has_colour() else tell)(*shown, sep="")
        else:
            write(pieces_of(read_input(file), str(file)), selected, ids=ids, json=json)


def check_for_people(*, ids: bool, json: bool, lines: bool) -> None:
    """Raises `RequestError` for an option that has no place beside --pretty."""
    if ids or json:
        raise RequestError("--pretty is for people, --tokens and --json for programs: choose one")
    if lines:
        raise RequestError("--pretty shows one conversation")


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
            say(error_line(file, error, number))
        else:
            tell(as_json(prompt, indent=False))
    if failed:
        raise typer.Exit(1)


def read_source(text: bytes, source: Source, place: str) -> Conversation:
    match source:
        case Source.AUTO if b'"conversations"' in text and b'"messages"' not in text:
            return read_source(text, Source.SHAREGPT, place)
        case Source.AUTO:
            return read_transcript(text, place=place)
        case Source.HARMONY_JSON:
            from antiphon.formats.harmony import read_conversation

            return read_conversation(text)
        case Source.OPENAI:
            return read_transcript(text, chat=True, place=place)
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
        tell(prompt["text"], end="\n" if sys.stdout.isatty() else "")  # a file has the prompt and nothing more


def prompt_json(pieces: list[Piece], selected: SelectedFormat, *, ids: bool, complete: bool) -> dict[str, Any]:
    """The prompt for programs: its text, or its ids where the format has a vocabulary; or all there is of it."""
    numbers = {"ids": encode_pieces(pieces, selected.tokenizer)} if ids and selected.tokenizer else {}
    if not complete:
        return numbers or {"text": spell(pieces)}
    listed = [{"control": p.spelling} if isinstance(p, Control) else {"text": str(p)} for p in pieces]
    return {"format": selected.format.name, "text": spell(pieces), "pieces": listed, **numbers}


# The mask: whose each id of a conversation is, which of them the model samples, and what the next turn keeps.


def check_alone(given: dict[str, bool]) -> None:
    """Raises `RequestError` for an option that has no place beside --mask."""
    hints = {
        "--pretty": "Choose one.",
        "--tokens": "Use --mask --json, which has the ids.",
        "--whole": "Leave it out: the mask is always that of the whole conversation.",
        "--lines": "Give a file of one conversation.",
    }
    if name := next((name for name, is_given in given.items() if is_given), None):
        raise RequestError(f"--mask shows one conversation, whole and as it is; {name} has no place", hint=hints[name])


def show_mask(conversation: Conversation, selected: SelectedFormat, history: HistoryPolicy, *, json: bool) -> None:
    """Prints the mask: for programs as JSON, else in colours, and where there are none as a table."""
    from antiphon.generation.sampled import Tracer  # here: a prompt needs nothing of a turn

    tokenizer = selected.tokenizer
    if tokenizer is None:
        raise RequestError("a mask is of ids, and this format has no vocabulary here", hint="Name a model.")
    tracer = Tracer(selected.format, tokenizer, history=history)
    written = tracer.trace(conversation)
    kept = tracer.kept(conversation, written)
    if json:
        print_json(mask_json(selected.format.name, written, kept))
        return
    end = kept.count if kept else len(written.ids)
    stretches = [*with_pieces(written, end, tokenizer)]
    if has_colour():
        shown = (text for one, pieces in stretches for text in owned(pieces, one, tokenizer, marked=one.start == end))
        print(legend(), "".join(shown), sep="\n")
    else:
        head = ("ids", "owner", "message", "sampled", "kept", "text")
        print_table(head, [mask_row(one, pieces, tokenizer, kept=one.end <= end) for one, pieces in stretches])
    for change in written.changes:
        place = f"{place_of(conversation.messages, change.message)}: " if change.message >= 0 else ""
        tell(f"{place}{change}  [{change.kind}]")
    tell(kept_line(written, kept, tokenizer))


def with_pieces(written: Written, end: int, tokenizer: Tokenizer) -> Iterator[tuple[Passage, list[Piece]]]:
    """The stretches, parted at ``end`` too, each with its pieces: half a character stands with its other half."""
    decoder = PieceDecoder(tokenizer)
    for passage in written.passages:
        parts = (passage._replace(end=end), passage._replace(start=end))
        for one in parts if passage.start < end < passage.end else (passage,):
            yield one, decoder.feed(written.ids[one.start : one.end])


def mask_row(one: Passage, pieces: Sequence[Piece], tokenizer: Tokenizer, *, kept: bool) -> tuple[str, ...]:
    """The stretch for a table; ``kept``: the next turn begins with it too."""
    spelled = (f"{p.spelling}[{tokenizer.control_id(p)}]" if isinstance(p, Control) else p for p in pieces)
    text = as_json("".join(spelled), indent=False)
    message = " ".join([str(one.message), *([one.part.name.lower()] if one.part else [])]) if one.message >= 0 else ""
    marks = ("sampled" if one.sampled else "", "kept" if kept else "")
    return f"{one.start}-{one.end - 1}", one.owner.name.lower(), message, *marks, text


def mask_json(format: str, written: Written, kept: Kept | None) -> dict[str, Any]:
    """The mask for programs; ``start`` and ``end`` count ids, ``message`` frames: reasoning, texts and calls."""
    stretches = [
        {
            "start": one.start, "end": one.end, "owner": one.owner.name.lower(), "sampled": one.sampled,
            "message": one.message if one.message >= 0 else None, "part": one.part.name.lower() if one.part else None,
        }
        for one in written.passages
    ]  # fmt: skip
    changes = [
        {"kind": one.kind, "message": one.message if one.message >= 0 else None, "text": str(one)}
        for one in written.changes
    ]
    next_turn = {"kept": kept.count, "cause": kept.cause} if kept else None
    return {
        "format": format, "ids": [*written.ids], "stretches": stretches, "changes": changes, "next_turn": next_turn
    }  # fmt: skip


def place_of(messages: Sequence[Message], index: int) -> str:
    """The message for people: its number, its role and channel, and how it begins."""
    message = messages[index]
    named = " ".join(filter(None, (message.role.value, message.channel)))
    return f"message {index} ({named}: {as_json(message.text[:40], indent=False)})"


def kept_line(written: Written, kept: Kept | None, tokenizer: Tokenizer) -> str:
    if kept is None:
        return "The next turn: the format writes no prompt behind this conversation."
    if kept.cause is None:
        return f"The next turn keeps all {kept.count} ids."
    here, there = (
        "nothing" if id is None else f"{as_json(decode(tokenizer, [id]), indent=False)} ({id})"
        for id in (written.ids[kept.count], kept.other)
    )
    share = f"The next turn keeps the first {kept.count} of {len(written.ids)} ids"
    return f"{share}: then it has {there}, not {here}  [{kept.cause}]"
