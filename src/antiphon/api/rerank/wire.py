"""Rerank and score on the wire. Null means absent; unknown fields are ignored and counted."""

from __future__ import annotations

from typing import Literal

import msgspec

from antiphon.api.embeddings.wire import EmbeddingUsage
from antiphon.wire.names.translate import PromptFields


class RerankDocument(msgspec.Struct, frozen=True):
    text: str


class RerankRequest(PromptFields, kw_only=True):
    """The body of POST /v1/rerank: ``documents``, or ``texts`` as TEI has them, which is answered in its shape.

    ``top_n``: the best so many; 0: all. Texts that are too long are errors, unless they are cut: what the model reads
    at once to ``truncate_prompt_tokens`` (-1, or ``truncate``: as many as it reads), each document to
    ``max_tokens_per_doc``. ``use_activation`` false and ``raw_scores`` true want logits, which are refused.
    """

    query: str
    model: str | None = None
    documents: list[str | RerankDocument] | None = None
    texts: list[str] | None = None
    top_n: int | None = None
    return_documents: bool | None = None
    return_text: bool | None = None
    truncate_prompt_tokens: int | None = None
    max_tokens_per_doc: int | None = None
    truncate: bool | None = None
    use_activation: bool | None = None
    raw_scores: bool | None = None
    user: str | None = None


class ScoreRequest(PromptFields, kw_only=True):
    """The body of POST /v1/score: one text with one or with several, or as many with as many."""

    text_1: str | list[str]
    text_2: str | list[str]
    model: str | None = None
    truncate_prompt_tokens: int | None = None
    use_activation: bool | None = None
    user: str | None = None


class RerankResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One document by its place in the request; its text only where that is requested."""

    index: int
    relevance_score: float
    document: RerankDocument | None = None


class RerankAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The results, the best first."""

    id: str
    object: Literal["list"] = "list"
    model: str
    usage: EmbeddingUsage
    results: list[RerankResult]


class TextRank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One text of a request that has ``texts``; their answer is a list, the best first."""

    index: int
    score: float
    text: str | None = None


class ScoreObject(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    object: Literal["score"] = "score"
    score: float


class ScoreList(msgspec.Struct, frozen=True, kw_only=True):
    """The scores in the order of the pairs. ``created`` is a Unix time in seconds."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[ScoreObject]
    usage: EmbeddingUsage
