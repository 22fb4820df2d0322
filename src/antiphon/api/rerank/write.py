"""Scores → the answer to a rerank or a score request."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.api.embeddings.wire import EmbeddingUsage
from antiphon.engines import Ranking
from antiphon.generation import Comparison

from .wire import RerankAnswer, RerankDocument, RerankRequest, RerankResult, ScoreList, ScoreObject, TextRank


def rerank_answer(
    wire: RerankRequest, comparison: Comparison, ranking: Ranking, *, id: str, model: str
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
