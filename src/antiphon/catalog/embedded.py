"""A GGUF file as a model of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from antiphon.config.config import EngineConfig
from antiphon.config.entries import ModelEntry
from antiphon.engines.gguf_file import GgufValue
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings, read_model_file
from antiphon.errors import ModelError, TokenError
from antiphon.formats import FormatRegistry
from antiphon.generation import Model
from antiphon.models.text import gguf_text

from .loading import DEFAULT_CONTEXT, format_of, model_of
from .residence import Residence, SleepingEngine


async def load_embedded(
    name: str,
    entry: ModelEntry,
    path: Path,
    config: EngineConfig,
    formats: FormatRegistry,
    residence: Residence | None = None,
) -> Model:
    """Everything that may be wrong with the file and its format is told before the engine takes its memory."""
    file = await asyncio.to_thread(read_model_file, path)
    try:
        text = await asyncio.to_thread(gguf_text, file.metadata)
    except TokenError as error:
        raise ModelError(f"{path.name}: {error.message}", code=error.code) from None
    format = format_of(name, entry, text, formats, fallback=config.fallback_format)
    settings = engine_settings(path, entry, config, file.metadata)
    residence = residence or Residence()
    engine = await SleepingEngine.woken(name, file.needs(settings), lambda: LlamaCppEngine.start(settings), residence)
    return model_of(name, entry, engine, text, format)


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
