"""A model that is ready to answer: an engine, its vocabulary, and the format it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from antiphon.engines import Engine
from antiphon.engines.kind import Task
from antiphon.formats import Format
from antiphon.formats.raw import FillInMiddle
from antiphon.tokens import Control, SegmentMemo, Tokenizer

from .abilities import offers_tools, reasons
from .facts import ModelFacts
from .precedence import Layer, context_of
from .sequences import Sequences

if TYPE_CHECKING:  # llguidance is an extra
    from .compile import ReplyCompiler


class EmbeddingSpec(msgspec.Struct, frozen=True):
    """What a model's embeddings are: ``size`` numbers.

    ``shortens``: their beginnings are embeddings too; ``shorter``: those of these lengths are.
    """

    size: int
    shortens: bool = False
    shorter: tuple[int, ...] = ()

    def has(self, dimensions: int) -> bool:
        """Whether there are embeddings of so many numbers."""
        shorter = 0 < dimensions < self.size and (self.shortens or dimensions in self.shorter)
        return shorter or dimensions == self.size


class RankingSpec(msgspec.Struct, frozen=True):
    """What a model that reads two texts as one needs: ``frame`` tokens beside theirs."""

    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What the catalog makes of a name and generation runs. ``layers`` are who has an opinion about its settings,
    ``described`` is what its files say.

    ``created`` is a Unix time in seconds. ``max_output_tokens`` None: only the context limits an answer.
    ``embedding`` is for a model that embeds and writes nothing; its format frames the texts. ``ranking`` is for one
    that scores pairs of texts and does nothing else. ``infill``: how it
    fills in the middle of a text. ``begin`` is what a prompt of its begins with, where that is no part of a format.
    ``special_tokens`` are the spellings of ``bos_token``, ``eos_token`` …, as the model's files name them, and
    ``chat_template`` is the Jinja template that they have, whatever the model is spoken to in here.
    ``thinking_budget``: characters after which each thought of a constrained reply must end; None lets it think on.
    ``calls``: whether calls are read in the form that the model was trained on alone, or in any.
    """

    name: str
    engine: Engine
    tokenizer: Tokenizer
    format: Format
    layers: tuple[Layer, ...] = ()
    described: ModelFacts | None = None
    created: int = 0
    owner: str = "antiphon"
    max_output_tokens: int | None = None
    embedding: EmbeddingSpec | None = None
    ranking: RankingSpec | None = None
    infill: FillInMiddle | None = None
    begin: Control | None = None
    thinking_budget: int | None = None
    calls: Literal["trained", "any"] = "any"
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    chat_template: str | None = None
    memo: SegmentMemo = field(default_factory=SegmentMemo)
    sequences: Sequences = field(default_factory=Sequences)
    compiler: ReplyCompiler | None = None
    """Makes the grammars of replies; None where llguidance is not installed, or the engine takes no grammar."""
    _limit: int | None = field(init=False, repr=False, compare=False)
    """What the layers say of the context."""

    def __post_init__(self) -> None:
        limit = context_of(self.layers)
        object.__setattr__(self, "_limit", None if limit is None else int(limit.value))

    @property
    def facts(self) -> ModelFacts:
        """What is known of it, for those who choose a model."""
        if self.described is not None:
            return replace(self.described, context=self.context)
        return ModelFacts(
            task=self.task,
            context=self.context,
            vocabulary=self.tokenizer.size,
            layers=self.layers,
            max_output_tokens=self.max_output_tokens,
            format=self.format.name if self.task == "chat" else None,
            tools=self.task == "chat" and offers_tools(self.format),
            reasoning=self.task == "chat" and reasons(self.format),
            infill=self.infill is not None,
            embedding=self.embedding.size if self.embedding else None,
            chat_template=self.chat_template,
        )

    @property
    def task(self) -> Task:
        """What it is for."""
        if self.ranking is not None:
            return "rank"
        return "chat" if self.embedding is None else "embed"

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together (resolution X-52)."""
        most = self.engine.info.context
        return most if self._limit is None else min(most, self._limit)


def stop_ids(format: Format, tokenizer: Tokenizer) -> frozenset[int]:
    """The ids of the format's stops that are controls of this vocabulary; the parser finds the others in the text."""
    controls = (stop for stop in format.stops if isinstance(stop, Control))
    ids = (tokenizer.control_id(control) for control in controls)
    return frozenset(id for id in ids if id is not None)
