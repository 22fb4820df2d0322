"""``antiphon render``: a conversation as the exact prompt of a format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.conversation import Role
from antiphon.tokens import Control, encode_pieces, spell

from .options import ConfigOption, FormatOption, JsonOption, ModelOption, TemplateOption, configure, print_json
from .spoken import read_input, spoken_by
from .transcript import read_transcript


def command(
    file: Annotated[Path, typer.Argument(help="A conversation as JSON; - reads standard input.")],
    format: FormatOption = None,
    model: ModelOption = None,
    chat_template: TemplateOption = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="The conversation alone, without the start of a reply.")
    ] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Token ids instead of text (needs a model's vocabulary).")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write a conversation as the prompt of a format. Control tokens are spelled out; --json tells them apart."""
    loaded = configure(config, model=model, format=format, chat_template=chat_template)
    spoken = spoken_by(loaded.config, named=format, ids=ids)
    conversation = read_transcript(read_input(file))
    pieces = list(spoken.format.render(conversation, reply_as=None if whole else Role.ASSISTANT))
    numbers = encode_pieces(pieces, spoken.tokenizer) if ids and spoken.tokenizer else None
    if json:
        told = [{"control": p.spelling} if isinstance(p, Control) else {"text": str(p)} for p in pieces]
        print_json(
            {"format": spoken.format.name, "text": spell(pieces), "pieces": told} | ({"ids": numbers} if ids else {})
        )
    elif numbers is not None:
        print(*numbers)
    else:
        print(spell(pieces))
