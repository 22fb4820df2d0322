"""Answers of the routes of models, in the shapes that the clients of several servers read."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from antiphon.generation import Layer, ModelFacts, Source
from antiphon.wire.dialect import Dialect


class ModelMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that clients of llama.cpp's server read; sizes in bytes."""

    n_vocab: int
    n_ctx: int | None = None
    n_ctx_train: int | None = None
    n_embd: int | None = None
    size: int | None = None


class ModelSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A default of the model, and who says so (never where: that may be a path of the server's)."""

    value: float
    source: str


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of Antiphon's own. ``default_output_tokens`` null: an answer may be as long as the context allows.

    ``engine`` and ``honours``, the settings of a request that the engine takes, are null of a model that is not loaded.
    """

    task: str
    aliases: list[str]
    format: str | None
    tools: bool
    reasoning: bool
    infill: bool
    images: bool
    engine: str | None
    honours: list[str] | None
    default_output_tokens: int | None
    max_output_tokens: int | None
    settings: dict[str, ModelSetting]


class ModelPermission(msgspec.Struct, frozen=True, kw_only=True):
    """vLLM's, whose clients expect one."""

    id: str
    object: Literal["model_permission"] = "model_permission"
    created: int = 0
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: None = None
    is_blocking: bool = False


class ModelCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Mistral's, by which its clients choose a model."""

    completion_chat: bool = False
    completion_fim: bool = False
    function_calling: bool = False
    reasoning: bool = False
    vision: bool = False
    fine_tuning: bool = False


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """``max_model_len`` is what prompt and answer may have together, in tokens; null before that is known.

    ``max_context_length`` (Mistral's) and ``context_window`` (Groq's) are the same. ``meta`` and ``antiphon`` are null
    of a model whose files were not read yet, and its ``capabilities`` are all false.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "antiphon"
    root: str
    parent: None = None
    max_model_len: int | None = None
    max_context_length: int | None = None
    context_window: int | None = None
    active: bool = True
    type: Literal["base"] = "base"
    capabilities: ModelCapabilities = ModelCapabilities()
    permission: list[ModelPermission] = []
    meta: ModelMeta | None = None
    antiphon: ModelDetails | None = None


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ModelCard]


def model_card(
    name: str, created: int, facts: ModelFacts | None, dialect: Dialect, aliases: tuple[str, ...] = ()
) -> ModelCard:
    """A model as it is answered in a dialect; ``facts`` None: nothing is known of it but its name."""
    permission = ModelPermission(id=f"modelperm-{name}", created=created)
    card = ModelCard(id=name, created=created, root=name, permission=[permission])
    if facts is None:
        return card
    facts = facts_under(facts, dialect)
    return msgspec.structs.replace(
        card,
        max_model_len=facts.context,
        max_context_length=facts.context,
        context_window=facts.context,
        capabilities=ModelCapabilities(
            completion_chat=facts.task == "chat",
            completion_fim=facts.infill,
            function_calling=facts.tools,
            reasoning=facts.reasoning,
            vision=facts.images,
        ),
        meta=ModelMeta(
            n_vocab=facts.vocabulary,
            n_ctx=facts.context,
            n_ctx_train=facts.trained_context,
            n_embd=facts.embedding,
            size=facts.size,
        ),
        antiphon=_details(facts, aliases),
    )


def facts_under(facts: ModelFacts, dialect: Dialect) -> ModelFacts:
    """A model's facts with what the dialect has to say: its document's defaults, and its longest answer."""
    limits = [limit for limit in (facts.max_output_tokens, dialect.max_output) if limit is not None]
    documented = Layer(Source.DIALECT, dialect.defaults, dialect.name)
    fallback = Layer(Source.DEFAULT, dialect.fallback, f"dialect {dialect.name}")
    return replace(facts, layers=(*facts.layers, documented, fallback), max_output_tokens=min(limits, default=None))


_NO_FIELDS = frozenset({"images", "stop_ids"})
"""Abilities of an engine that are no fields of a request."""


def _details(facts: ModelFacts, aliases: tuple[str, ...]) -> ModelDetails:
    writes = facts.task == "chat"
    chosen = [one for one in facts.settings if one.name not in ("context", "max_tokens")] if writes else []
    return ModelDetails(
        task=facts.task,
        aliases=list(aliases),
        format=facts.format,
        tools=facts.tools,
        reasoning=facts.reasoning,
        infill=facts.infill,
        images=facts.images,
        engine=facts.engine,
        honours=None if facts.honours is None or not writes else sorted(facts.honours - _NO_FIELDS),
        default_output_tokens=facts.default_output_tokens if writes else None,
        max_output_tokens=facts.max_output_tokens if writes else None,
        settings={one.name: ModelSetting(value=one.value, source=one.source.words) for one in chosen},
    )
