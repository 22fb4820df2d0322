"""A model that is ready to answer: an engine, its vocabulary, and the format it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.conversation import Conversation, Message, Role, ToolSpec
from antiphon.engines import Engine
from antiphon.engines.kind import Task
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.raw import FillInMiddle
from antiphon.tokens import Control, SegmentMemo, Tokenizer

from .images import ImageCheck, mark_of
from .precedence import Layer, Setting, context_of, settings, with_defaults
from .request import TurnRequest
from .sequences import Sequences

if TYPE_CHECKING:  # llguidance is an extra
    from .compile import ReplyCompiler


# What replies and prompts of a format can have.

_TOOL = ToolSpec(name="f", description="", parameters={"type": "object", "properties": {}})


def reasons(format: Format) -> bool:
    """Whether replies in the format have reasoning that is told from the answer."""
    replies = getattr(format, "replies", None)
    return isinstance(format, Harmony) or getattr(replies, "reasoning", None) is not None


def offers_tools(format: Format) -> bool:
    """Whether tools can be offered in the format: a prompt with one says so."""
    question = Conversation((Message(role=Role.USER, text="?"),))
    try:
        return list(format.render(replace(question, tools=(_TOOL,)))) != list(format.render(question))
    except AntiphonError:
        return False


# What is known of a model before it answers, for those who choose one.


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a model's file states. ``values`` are its numbers and words, but for those of its vocabulary.

    ``parameters`` is how many the model has; ``digest`` is the SHA-256 of the file, in hex, where the catalog has it.
    """

    architecture: str = ""
    quantization: str = ""
    parameters: int | None = None
    digest: str | None = None
    licence: str = ""
    values: Mapping[str, int | float | bool | str] = msgspec.field(default_factory=dict)


class Capability(msgspec.Struct, frozen=True):
    """A sentence on what a model can do here; ``lacking``: something cannot be done, and ``hint`` says what helps."""

    says: str
    lacking: bool = False
    hint: str = ""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Facts known of a model before it answers, by subject; None: it does not apply, or nothing is known of it."""

    vocabulary: Capability | None = None
    template: Capability | None = None
    tools: Capability | None = None
    thinking: Capability | None = None
    sampling: Capability | None = None
    context: Capability | None = None
    memory: Capability | None = None
    licence: Capability | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``context``: tokens that prompt and answer may have together; None: not known before its server answers.

    ``trained_context`` are the positions that it was trained on, ``size`` is in bytes; None: its files do not say.
    ``chat_template`` and ``file`` are its files'; None where they have none, and of models without files here.
    ``format`` is what it speaks and ``format_origin`` why, for people; None of one that embeds. ``layers`` are who has
    an opinion about its settings. ``engine`` is the name of the engine that it is loaded in, and ``honours`` are the
    settings that it takes; None of a model that is not loaded.
    """

    task: str
    context: int | None
    vocabulary: int
    layers: tuple[Layer, ...] = ()
    max_output_tokens: int | None = None
    format: str | None = None
    format_origin: str = ""
    tools: bool = False
    reasoning: bool = False
    infill: bool = False
    images: bool = False
    trained_context: int | None = None
    embedding: int | None = None
    size: int | None = None
    chat_template: str | None = None
    file: FileFacts | None = None
    capabilities: Capabilities = Capabilities()
    engine: str | None = None
    honours: frozenset[str] | None = None

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings of a request that states none, with their sources."""
        return settings(with_defaults(self.layers))

    @property
    def default_output_tokens(self) -> int | None:
        """Tokens of an answer whose request limits none; None: what the context holds."""
        given = next((int(one.value) for one in self.settings if one.name == "max_tokens"), 0)
        limits = [limit for limit in (given, self.max_output_tokens) if limit]
        return min(limits, default=None)


class EmbeddingSpec(msgspec.Struct, frozen=True):
    """The shape of a model's embeddings: ``size`` numbers.

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
    """The needs of a model that reads two texts as one: ``frame`` tokens beside theirs."""

    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """An engine, a tokenizer and a format under one name. ``layers`` are the sources of its settings, ``described``
    is what its files say.

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
    images: ImageCheck = field(default_factory=ImageCheck)
    compiler: ReplyCompiler | None = None
    """Makes the grammars of replies; None where llguidance is not installed, or the engine takes no grammar."""
    _limit: int | None = field(init=False, repr=False, compare=False)
    """Tokens of context that the layers allow."""

    def __post_init__(self) -> None:
        limit = context_of(self.layers)
        object.__setattr__(self, "_limit", None if limit is None else int(limit.value))

    @property
    def facts(self) -> ModelFacts:
        """Its facts, for people and programs that choose a model."""
        info = self.engine.info
        if self.described is not None:
            return replace_fields(
                self.described, context=self.context, images=bool(self.image_mark),
                engine=info.name, honours=info.honours,
            )  # fmt: skip
        return ModelFacts(
            task=self.task,
            engine=info.name,
            honours=info.honours,
            context=self.context,
            vocabulary=self.tokenizer.size,
            layers=self.layers,
            max_output_tokens=self.max_output_tokens,
            format=self.format.name if self.task == "chat" else None,
            tools=self.task == "chat" and offers_tools(self.format),
            reasoning=self.task == "chat" and reasons(self.format),
            infill=self.infill is not None,
            images=bool(self.image_mark),
            embedding=self.embedding.size if self.embedding else None,
            chat_template=self.chat_template,
        )

    @property
    def task(self) -> Task:
        """Its use: to chat, to embed or to rank."""
        if self.ranking is not None:
            return "rank"
        return "chat" if self.embedding is None else "embed"

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together (resolution X-52)."""
        most = self.engine.info.context
        return most if self._limit is None else min(most, self._limit)

    @property
    def image_mark(self) -> Sequence[Control]:
        """The controls that stand for an image in its prompts; none of a model that sees none, or whose engine does."""
        return mark_of(self.format) if "images" in self.engine.info.honours else ()

    @property
    def reply_compiler(self) -> ReplyCompiler | None:
        """The compiler of replies' grammars; None where no grammar can constrain them."""
        return self.compiler if self.engine.info.grammar else None

    def called_in_any_form(self, request: TurnRequest) -> tuple[ToolSpec, ...]:
        """The tools whose calls are read in any form, not only in the one that the model was trained on."""
        return () if self.calls == "trained" else request.called_in_any_form


def stop_ids(format: Format, tokenizer: Tokenizer) -> frozenset[int]:
    """The ids of the format's stops that are controls of this vocabulary; the parser finds the others in the text."""
    controls = (stop for stop in format.stops if isinstance(stop, Control))
    ids = (tokenizer.control_id(control) for control in controls)
    return frozenset(id for id in ids if id is not None)
