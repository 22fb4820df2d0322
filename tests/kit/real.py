"""A small model of a file, in ChatML, by the embedded engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.formats.replies import ReplyDescription
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.tokens import gguf_tokenizer


@asynccontextmanager
async def chatml_model(path: Path, *, replies: ReplyDescription | None = None, **settings: Any) -> AsyncIterator[Model]:
    """The model, on one thread, while it is loaded; ``replies``: how it writes them."""
    engine = await LlamaCppEngine.start(LlamaCppSettings(model=path, threads=1, **settings))
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    format = template_format("chatml", tokenizer.controls.keys(), replies=replies)
    try:
        yield Model(name="smollm2", engine=engine, tokenizer=tokenizer, format=format)
    finally:
        await engine.aclose()
