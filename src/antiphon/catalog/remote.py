"""A server that runs already, a llama.cpp server or vLLM, as a model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from antiphon.config.entries import ModelEntry
from antiphon.engines.llama_server import LlamaServerEngine
from antiphon.engines.vllm import VllmEngine
from antiphon.errors import UNREACHABLE, ConfigError, EngineError, ModelError, OverloadedError
from antiphon.formats import FormatRegistry
from antiphon.generation import Model
from antiphon.models.text import ModelText, read_model_text

from .distant import DistantEngine
from .loading import format_of, model_of

log = logging.getLogger("antiphon.catalog")

SAMPLE = "Straße, naïve café: 漢字かな, Привет!\n\n\tdef f(x): return x**2 + 10_000  # ¿qué?"
"""Other vocabularies cut this text otherwise."""

RETRY_SECONDS = 5.0


async def load_remote(
    name: str, entry: ModelEntry, formats: FormatRegistry, environ: Mapping[str, str], *, fallback: str
) -> Model:
    """Everything here is read before the server is asked.

    Errors: `ModelError` for a tokenizer that is not here or not the server's, `ConfigError` for a key that is not,
    `OverloadedError` (``engine_unreachable``) when nobody answers there.
    """
    text = await asyncio.to_thread(read_model_text, entry.tokenizer)
    format = format_of(name, entry, text, formats, fallback=fallback)
    key = await asyncio.to_thread(read_key, name, entry, environ)
    try:
        engine = await connect(entry, text, key)
    except OverloadedError as error:
        log.warning("%s: no answer from %s", name, entry.url)
        raise OverloadedError(
            f"the server that runs {name!r} cannot be reached",
            code=UNREACHABLE,
            retry_after=RETRY_SECONDS,
            hint=f"It is asked again with the next request. For its owner: is it up, and is models.{name}.url right?",
        ) from error
    except EngineError as error:
        log.warning("%s: %s says: %s", name, entry.url, error)
        raise
    try:
        await check_vocabulary(name, engine, text)
    except BaseException:
        await engine.aclose()
        raise
    return model_of(name, entry, DistantEngine(engine), text, format)


async def connect(entry: ModelEntry, text: ModelText, key: str | None) -> LlamaServerEngine | VllmEngine:
    """The engine, which has asked the server what it is. Errors are the engine's."""
    match entry.engine:
        case "llama_server":
            return await LlamaServerEngine.connect(
                entry.url,
                key=key,
                tokenizer=text.tokenizer,
                grammar=entry.grammar,
                embeddings=entry.task == "embed",
                streams=entry.slots or 16,
            )
        case "vllm":
            return await VllmEngine.connect(
                entry.url,
                key=key,
                tokenizer=text.tokenizer,
                end_ids=text.end_ids,
                model=entry.served_name or None,
                grammar=entry.grammar,
                streams=entry.slots or 256,
            )
        case "llama_cpp" | "scripted" as engine:
            raise ModelError(f"the engine {engine} is no server")
        case _:
            assert_never(entry.engine)


def read_key(name: str, entry: ModelEntry, environ: Mapping[str, str]) -> str | None:
    """The server's key; never in a message or a log. Raises `ConfigError` when it is not where the entry says."""
    if entry.key_variable:
        key = environ.get(entry.key_variable, "").strip()
        place = f"the environment variable {entry.key_variable}"
    elif entry.key_file:
        place = f"the file {entry.key_file}"
        try:
            key = Path(entry.key_file).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            key = ""
    else:
        return None
    if not key or not key.isprintable() or not key.isascii():
        raise ConfigError(f"there is no key for {name!r} in {place}", code="engine_key")
    return key


async def check_vocabulary(name: str, engine: LlamaServerEngine | VllmEngine, text: ModelText) -> None:
    """Raises `ModelError` when the server cuts a text otherwise than the tokenizer here: ids would mean other words."""
    theirs = await engine.tokenize(SAMPLE)
    if theirs is not None and theirs != await asyncio.to_thread(text.tokenizer.encode, SAMPLE):
        raise ModelError(
            f"the tokenizer of {name!r} is not the one of the server that runs it",
            code="tokenizer_mismatch",
            hint=f"models.{name}.tokenizer must be of the same model.",
        )
