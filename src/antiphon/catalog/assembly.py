"""The parts of a model put together: vocabulary, format, engine, settings and the compiler of its grammars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.engines import Engine
from antiphon.formats import Format
from antiphon.generation import EmbeddingSpec, Model, RankingSpec

from .describe import Described
from .files.text import ModelText

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.generation.compile import ReplyCompiler


def model_of(described: Described, engine: Engine) -> Model:
    """The parts as one."""
    entry, text, format = described.entry, described.source.text, described.format
    embeds, writes = entry.task == "embed", entry.task == "chat"
    return Model(
        name=described.name,
        engine=engine,
        tokenizer=text.tokenizer,
        format=format,
        layers=described.layers,
        described=described.facts,
        max_output_tokens=entry.max_output_tokens,
        thinking_budget=entry.thinking_budget,
        calls=entry.calls,
        special_tokens=text.special,
        chat_template=text.template,
        embedding=EmbeddingSpec(text.dimensions, entry.shortens, text.shorter) if embeds else None,
        ranking=RankingSpec(text.pair_frame or 0) if entry.task == "rank" else None,
        infill=text.infill,
        begin=text.begin,
        compiler=None if not (writes and engine.info.grammar) else compiler_of(format, text, engine),
    )


def compiler_of(format: Format, text: ModelText, engine: Engine) -> ReplyCompiler | None:
    """What makes the grammars of a model's replies; None where llguidance is not installed, which is an extra."""
    try:
        from antiphon.generation.compile import ReplyCompiler
    except ImportError:
        return None
    return ReplyCompiler(format, text.tokenizer, engine.info.end_ids)
