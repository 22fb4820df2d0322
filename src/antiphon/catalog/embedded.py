"""A GGUF file as a model of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from antiphon.engines.gguf_file import GgufValue, read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.errors import ModelError, TokenError
from antiphon.formats import Format, FormatRegistry
from antiphon.formats.raw import RawFormat
from antiphon.generation import EmbeddingSpec, Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import Control, Tokenizer, gguf_tokenizer

from .config import EngineConfig
from .entries import ModelEntry
from .format_choice import choose_format
from .loading import DEFAULT_CONTEXT, model_of


async def load_embedded(
    name: str, entry: ModelEntry, path: Path, config: EngineConfig, formats: FormatRegistry
) -> Model:
    """Everything that may be wrong with the file and its format is told before the engine takes its memory."""
    metadata = await asyncio.to_thread(read_gguf_metadata, path)
    tokenizer = await asyncio.to_thread(tokenizer_of, path, metadata)
    embeds = entry.task == "embed"
    format: Format = (
        sentence_format(metadata, tokenizer)
        if embeds
        else choose_format(name, entry, metadata, tokenizer, formats, fallback=config.fallback_format)
    )
    engine = await LlamaCppEngine.start(engine_settings(path, entry, config, metadata))
    created = int((await asyncio.to_thread(path.stat)).st_mtime)
    if embeds:
        spec = EmbeddingSpec(size_of(metadata), entry.shortens)
        return replace(model_of(name, entry, engine, tokenizer, format, created=created), embedding=spec)
    compiler = ReplyCompiler(format, tokenizer, engine.info.end_ids)
    return model_of(name, entry, engine, tokenizer, format, created=created, compiler=compiler)


def engine_settings(
    path: Path, entry: ModelEntry, config: EngineConfig, metadata: Mapping[str, GgufValue]
) -> LlamaCppSettings:
    """The entry's settings over the configuration's; never more context than the model was trained for."""
    wanted = entry.context or config.context or DEFAULT_CONTEXT
    trained = metadata.get(f"{metadata.get('general.architecture')}.context_length")
    return LlamaCppSettings(
        model=path,
        context=min(wanted, trained) if isinstance(trained, int) and trained > 0 else wanted,
        slots=entry.slots or config.slots,
        threads=entry.threads or config.threads,
        embeddings=entry.task == "embed",
    )


def sentence_format(metadata: Mapping[str, GgufValue], tokenizer: Tokenizer) -> RawFormat:
    """What frames each text that is embedded: of BERT's kind [CLS] and [SEP], of others what the file says to add."""
    bert = metadata.get("tokenizer.ggml.model") == "bert"
    frame: dict[str, list[Control]] = {"bos": [], "eos": []}
    for role, controls in frame.items():
        id = metadata.get(f"tokenizer.ggml.{role}_token_id")
        piece = tokenizer.piece(id) if isinstance(id, int) else b""
        if isinstance(piece, Control) and metadata.get(f"tokenizer.ggml.add_{role}_token", bert):
            controls.append(piece)
    return RawFormat(tokenizer.controls.keys(), begin=frame["bos"], end=frame["eos"])


def size_of(metadata: Mapping[str, GgufValue]) -> int:
    """How many numbers an embedding has."""
    size = metadata.get(f"{metadata.get('general.architecture')}.embedding_length")
    return size if isinstance(size, int) else 0


def tokenizer_of(path: Path, metadata: Mapping[str, GgufValue]) -> Tokenizer:
    """The file's vocabulary, with the very ids of the engine. Raises `ModelError` for a kind that we do not cover."""
    try:
        return gguf_tokenizer(metadata)
    except TokenError as error:
        raise ModelError(f"{path.name}: {error.message}", code=error.code) from None
