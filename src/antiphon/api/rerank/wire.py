"""Rerank and score on the wire. Null means absent; unknown fields are ignored and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from antiphon.api.embeddings.wire import EmbeddingUsage
from antiphon.config import Limits
from antiphon.engines import Ranking
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import Comparison, Placed
from antiphon.wire.errors import refused
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


class ApiVersion(msgspec.Struct, frozen=True):
    version: Literal["1", "2"]


class RerankMeta(msgspec.Struct, frozen=True):
    api_version: ApiVersion


class RerankAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The results, the best first. ``meta`` is Cohere's: the version in the path of the request."""

    id: str
    object: Literal["list"] = "list"
    model: str
    usage: EmbeddingUsage
    results: list[RerankResult]
    meta: RerankMeta


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


# A rerank or a score request → the texts that are compared.

_ACTIVATED = "Scores are cosines, or the sigmoid of a logit."


def to_comparison(wire: RerankRequest, limits: Limits) -> Comparison:
    """The query and its documents. Raises `RequestError` at the field."""
    _check_activation(wire.use_activation)
    if wire.raw_scores:
        raise UnsupportedError("raw_scores cannot be honoured.", position=Position(path="raw_scores"), hint=_ACTIVATED)
    if wire.top_n is not None and wire.top_n < 0:
        raise refused("top_n", f"{wire.top_n} is none of 0 (all), 1, 2 ….")
    if wire.max_tokens_per_doc is not None and wire.max_tokens_per_doc < 1:
        raise refused("max_tokens_per_doc", "a document has 1 token at least.")
    if wire.truncate and wire.truncate_prompt_tokens not in (None, -1):
        raise refused("truncate", "it is truncate_prompt_tokens -1, and that is there with another value.")
    return Comparison(_query(wire.query, "query"), _documents(wire, limits))


def limit_of(wire: RerankRequest) -> int | None:
    """Tokens to which what the model reads at once is cut; -1: as many as it reads; None: it is not cut."""
    return -1 if wire.truncate else wire.truncate_prompt_tokens


def to_comparisons(wire: ScoreRequest, limits: Limits) -> list[Comparison]:
    """One query with all texts of the other side, or pair by pair. Raises `RequestError` at the field."""
    _check_activation(wire.use_activation)
    first, second = _placed(wire.text_1, "text_1", limits), _placed(wire.text_2, "text_2", limits)
    queries = [_query(one.text, one.path) for one in first]
    if len(queries) == 1:
        return [Comparison(queries[0], second)]
    if len(queries) != len(second):
        counts = f"{len(queries)} texts cannot be paired with {len(second)}"
        raise refused("text_2", f"{counts}; send one with several, or as many with as many.")
    return [Comparison(query, [other]) for query, other in zip(queries, second, strict=True)]


def _check_activation(use_activation: bool | None) -> None:
    if use_activation is False:
        position = Position(path="use_activation")
        raise UnsupportedError("use_activation: logits are not answered.", position=position, hint=_ACTIVATED)


def _documents(wire: RerankRequest, limits: Limits) -> list[Placed]:
    if (wire.documents is None) == (wire.texts is None):
        code = "missing_required_parameter" if wire.texts is None else "invalid_value"
        raise refused("documents", "either documents or texts must be there.", code=code)
    if wire.texts is not None:
        return _counted(wire.texts, "texts", limits)
    return _counted([one if isinstance(one, str) else one.text for one in wire.documents or ()], "documents", limits)


def _placed(texts: str | list[str], path: str, limits: Limits) -> list[Placed]:
    return [Placed(texts, path)] if isinstance(texts, str) else _counted(texts, path, limits)


def _counted(texts: Sequence[str], path: str, limits: Limits) -> list[Placed]:
    if not 1 <= len(texts) <= limits.max_inputs:
        raise refused(path, f"there are {len(texts)} texts; from 1 to {limits.max_inputs} are possible.")
    return [Placed(text, f"{path}[{i}]") for i, text in enumerate(texts)]


def _query(text: str, path: str) -> Placed:
    if not text.strip():
        raise refused(path, "the text is empty.")
    return Placed(text, path)


# Scores → the answer to a rerank or a score request.


def rerank_answer(
    wire: RerankRequest, comparison: Comparison, ranking: Ranking, *, id: str, model: str, version: Literal["1", "2"]
) -> RerankAnswer | list[TextRank]:
    """The best first, in the shape that the request's own has; equal scores in the documents' order."""
    texts = [document.text for document in comparison.documents]
    best = best_first(ranking.scores)[: wire.top_n or None]
    if wire.texts is not None:
        given = wire.return_text or wire.return_documents
        return [TextRank(index=i, score=ranking.scores[i], text=texts[i] if given else None) for i in best]
    return RerankAnswer(
        id=id,
        model=model,
        usage=EmbeddingUsage(ranking.tokens, ranking.tokens),
        results=[
            RerankResult(
                index=i,
                relevance_score=ranking.scores[i],
                document=RerankDocument(texts[i]) if wire.return_documents or wire.return_text else None,
            )
            for i in best
        ],
        meta=RerankMeta(ApiVersion(version)),
    )


def score_list(ranking: Ranking, *, id: str, model: str, created: int) -> ScoreList:
    """The scores in the order of the pairs."""
    return ScoreList(
        id=id,
        created=created,
        model=model,
        data=[ScoreObject(index=i, score=score) for i, score in enumerate(ranking.scores)],
        usage=EmbeddingUsage(ranking.tokens, ranking.tokens),
    )


def best_first(scores: Sequence[float]) -> list[int]:
    """The numbers of the scores."""
    return sorted(range(len(scores)), key=lambda i: -scores[i])
