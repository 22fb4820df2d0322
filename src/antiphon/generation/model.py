"""A model that is ready to answer: an engine, its vocabulary, and the format it was trained on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.engines import Engine
from antiphon.formats import Format, SamplingDefaults
from antiphon.tokens import SegmentMemo, Tokenizer

if TYPE_CHECKING:  # llguidance is an extra
    from .compile import ReplyCompiler


@dataclass(frozen=True, slots=True)
class EmbeddingSpec:
    """What a model's embeddings are: ``size`` numbers. ``shortens``: their beginnings are embeddings too."""

    size: int
    shortens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What the catalog makes of a name and generation runs. ``defaults`` are the format's under the catalog entry's.

    ``created`` is a Unix time in seconds. ``max_output_tokens`` None: only the context limits an answer.
    ``embedding`` is for a model that embeds and writes nothing; its format frames the texts.
    ``thinking_budget``: characters after which each thought of a constrained reply must end; None lets it think on.
    """

    name: str
    engine: Engine
    tokenizer: Tokenizer
    format: Format
    defaults: SamplingDefaults = field(default_factory=SamplingDefaults)
    created: int = 0
    owner: str = "antiphon"
    max_output_tokens: int | None = None
    embedding: EmbeddingSpec | None = None
    thinking_budget: int | None = None
    memo: SegmentMemo = field(default_factory=SegmentMemo)
    compiler: ReplyCompiler | None = None
    """Makes the grammars of replies; None where llguidance is not installed, or the engine takes no grammar."""

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together (resolution X-52)."""
        return min(self.engine.info.context, self.defaults.session_len or self.engine.info.context)
