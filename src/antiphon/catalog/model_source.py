"""What a model's files say, and the format that it is spoken to in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from antiphon.config import ModelEntry
from antiphon.engines.gguf_file import GgufFile, GgufValue, read_gguf
from antiphon.errors import ModelError, TokenError
from antiphon.formats import Format, FormatRegistry
from antiphon.tokens import ByteTokenizer

from .files.text import ModelText, gguf_text, read_model_text
from .format_choice import FALLBACK, choose_format
from .known_formats import KNOWN_CONTROLS


class ModelSource(msgspec.Struct, frozen=True):
    """What a model's files say. ``metadata`` is that of its GGUF file, where it has one on this machine.

    ``parameters`` is how many that file has.
    """

    text: ModelText
    path: Path | None = None
    metadata: Mapping[str, GgufValue] = msgspec.field(default_factory=dict)
    parameters: int | None = None


async def read_source(entry: ModelEntry, path: Path | None) -> ModelSource:
    """Reads the model's file at ``path``, else its tokenizer's; a model without either has single bytes as vocabulary.

    Errors: `ModelError` for files that cannot be read and vocabularies that are not covered.
    """
    if path is not None:
        file = await asyncio.to_thread(read_file, path)
        try:
            text = await asyncio.to_thread(gguf_text, file.metadata)
            return ModelSource(text, path, file.metadata, file.parameters)
        except TokenError as error:
            raise ModelError(f"{path.name}: {error.message}", code=error.code) from None
    if entry.tokenizer:
        return ModelSource(await asyncio.to_thread(read_model_text, entry.tokenizer))
    return ModelSource(ModelText(tokenizer=ByteTokenizer(KNOWN_CONTROLS)))


def read_file(path: Path) -> GgufFile:
    """What the file at ``path`` says of its model. Raises `ModelError` where there is none, or it is no GGUF file."""
    if not path.is_file():
        raise ModelError(f"there is no model file {path}", code="model_not_found")
    return read_gguf(path)


def format_of(name: str, entry: ModelEntry, text: ModelText, formats: FormatRegistry, *, fallback: str) -> Format:
    """What the model is spoken to in; of one that embeds or ranks, what frames each text."""
    if entry.task != "chat":
        if text.sentences is None:
            hint = "Name its GGUF file."
            raise ModelError(f"the tokenizer of {name!r} does not define how texts are framed", hint=hint)
        return text.sentences
    any_will_do = not (entry.engine.needs_file or entry.tokenizer or entry.format or entry.chat_template)
    chosen = replace(entry, format=FALLBACK) if any_will_do else entry
    return choose_format(name, chosen, text, formats, fallback=fallback)
