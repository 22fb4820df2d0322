"""The parts of a model put together: vocabulary, format, engine, sampling defaults and the compiler of its grammars."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from antiphon.config import ModelEntry, shipped_entries
from antiphon.engines import Engine
from antiphon.engines.gguf_file import GgufValue, read_gguf_metadata
from antiphon.errors import ModelError, TokenError
from antiphon.formats import Format, FormatRegistry, SamplingDefaults
from antiphon.formats.template import TemplateFormat
from antiphon.generation import EmbeddingSpec, Model
from antiphon.models.text import ModelText, gguf_text, read_model_text
from antiphon.tokens import ByteTokenizer

from .format_choice import FALLBACK, KNOWN_CONTROLS, choose_format

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.generation.compile import ReplyCompiler


@dataclass(frozen=True, slots=True)
class ModelSource:
    """What a model's files say. ``metadata`` is that of its GGUF file, where it has one on this machine."""

    text: ModelText
    path: Path | None = None
    metadata: Mapping[str, GgufValue] = field(default_factory=dict)


async def read_source(entry: ModelEntry, path: Path | None) -> ModelSource:
    """Reads the model's file at ``path``, else its tokenizer's; a model without either has single bytes as vocabulary.

    Errors: `ModelError` for files that cannot be read and vocabularies that are not covered.
    """
    if path is not None:
        metadata = await asyncio.to_thread(read_metadata, path)
        try:
            return ModelSource(await asyncio.to_thread(gguf_text, metadata), path, metadata)
        except TokenError as error:
            raise ModelError(f"{path.name}: {error.message}", code=error.code) from None
    if entry.tokenizer:
        return ModelSource(await asyncio.to_thread(read_model_text, entry.tokenizer))
    return ModelSource(ModelText(tokenizer=ByteTokenizer(KNOWN_CONTROLS)))


def read_metadata(path: Path) -> Mapping[str, GgufValue]:
    """The metadata of the file at ``path``. Raises `ModelError` where there is none, or it is no GGUF file."""
    if not path.is_file():
        raise ModelError(f"there is no model file {path}", code="model_not_found")
    return read_gguf_metadata(path)


def format_of(name: str, entry: ModelEntry, text: ModelText, formats: FormatRegistry, *, fallback: str) -> Format:
    """What the model is spoken to in; of one that embeds, what frames each text."""
    if entry.task == "embed":
        if text.sentences is None:
            hint = "Name its GGUF file."
            raise ModelError(f"the tokenizer of {name!r} does not define how texts are framed", hint=hint)
        return text.sentences
    any_will_do = not (entry.engine.needs_file or entry.tokenizer or entry.format or entry.chat_template)
    chosen = msgspec.structs.replace(entry, format=FALLBACK) if any_will_do else entry
    return choose_format(name, chosen, text, formats, fallback=fallback)


def sampling_defaults(name: str, entry: ModelEntry, format: Format) -> SamplingDefaults:
    """What counts where a request says nothing (LMD-05): the first of these that has an opinion.

    What the user's entry says; the settings that a template of the user's choice states; what ships for the model; the
    format's. A session is no longer than the entry's context, nor than a template file says (resolution X-52).
    """
    shipped = shipped_entries().get(name, ModelEntry())
    chosen = (entry.format, entry.chat_template) != (shipped.format, shipped.chat_template)
    stated = format.stated if chosen and isinstance(format, TemplateFormat) else SamplingDefaults()
    above, below = asdict(entry.defaults), asdict(shipped.defaults)
    own = {key: value for key, value in above.items() if value != below[key]}
    layers = (asdict(format.defaults), below, asdict(stated), own)
    merged = {key: value for layer in layers for key, value in layer.items() if value is not None}
    lengths = (merged.get("session_len"), entry.context, stated.session_len if entry.chat_template else None)
    merged["session_len"] = min((length for length in lengths if length), default=None)
    return SamplingDefaults(**merged)


def model_of(name: str, entry: ModelEntry, engine: Engine, text: ModelText, format: Format) -> Model:
    """The parts as one."""
    embeds = entry.task == "embed"
    return Model(
        name=name,
        engine=engine,
        tokenizer=text.tokenizer,
        format=format,
        defaults=sampling_defaults(name, entry, format),
        max_output_tokens=entry.max_output_tokens,
        thinking_budget=entry.thinking_budget,
        embedding=EmbeddingSpec(text.dimensions, entry.shortens) if embeds else None,
        compiler=None if embeds or not engine.info.grammar else compiler_of(format, text, engine),
    )


def compiler_of(format: Format, text: ModelText, engine: Engine) -> ReplyCompiler | None:
    """What makes the grammars of a model's replies; None where llguidance is not installed, which is an extra."""
    try:
        from antiphon.generation.compile import ReplyCompiler
    except ImportError:
        return None
    return ReplyCompiler(format, text.tokenizer, engine.info.end_ids)
