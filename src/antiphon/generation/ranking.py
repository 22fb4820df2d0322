"""How well documents answer a query: by a model that reads both as one, or by the cosine of their embeddings."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

import msgspec

from antiphon.engines import Ranker, Ranking
from antiphon.errors import ContextError, Position, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer, encode_pieces, may_fit

from .embedding import BATCH, TOO_LONG, EmbeddingPlan, context_limit, embed, plan_embedding
from .model import Model, RankingSpec
from .plan import count_of

Method = Literal["cosine", "cross-encoder"]


class Placed(msgspec.Struct, frozen=True):
    """A text, and the JSON path at which a request has it."""

    text: str
    path: str


class Comparison(msgspec.Struct, frozen=True):
    """A query with the documents that may answer it."""

    query: Placed
    documents: Sequence[Placed]


class RankingPlan(msgspec.Struct, frozen=True):
    """What the engine will be given: a query and its documents, all cut to what fits; or the embeddings of all texts.

    ``pairs`` are the numbers of two embeddings each; ``embedding`` None: the model reads pairs itself.
    """

    model: Model
    queries: tuple[tuple[str, tuple[str, ...]], ...] = ()
    embedding: EmbeddingPlan | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def method(self) -> Method:
        """What the scores are: cosines from -1 to 1, or the sigmoid of a cross-encoder's logit, from 0 to 1."""
        return "cross-encoder" if self.embedding is None else "cosine"


def plan_ranking(
    model: Model,
    comparisons: Sequence[Comparison],
    *,
    limit: int | None = None,
    document_limit: int | None = None,
) -> RankingPlan:
    """A text that is too long is an error, unless it is cut: what the model reads at once to ``limit`` tokens (-1: as
    many as it reads), each document to ``document_limit``.

    Errors: `UnsupportedError` for a model that neither ranks nor embeds, `RequestError` at the text, `ContextError`.
    """
    if model.ranking is None and model.embedding is None:
        hint = "Name a model that embeds or ranks, or leave model out."
        raise UnsupportedError(f"{model.name!r} ranks no documents", position=Position(path="model"), hint=hint)
    if document_limit is not None:
        comparisons = [_shortened(one, model.tokenizer, document_limit) for one in comparisons]
    if model.ranking is None:
        return _by_embeddings(model, comparisons, limit)
    most = context_limit(model, limit)
    queries = tuple(_fitted(model, model.ranking, one, most, cuts=limit is not None) for one in comparisons)
    return RankingPlan(model, queries)


async def rank(plan: RankingPlan, *, tenant: Tenant = NOBODY) -> Ranking:
    """A score for each document of each comparison, in their order. Errors are the engine's."""
    if plan.embedding is None:
        return await _by_pairs(plan, tenant)
    made = await embed(plan.embedding, tenant=tenant)
    scores = await asyncio.to_thread(lambda: tuple(cosine(made.vectors[a], made.vectors[b]) for a, b in plan.pairs))
    return Ranking(scores, made.tokens)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """From -1 to 1; 0 for a vector without a direction."""
    a, b = math.hypot(*one), math.hypot(*other)
    if not (a and b and math.isfinite(a) and math.isfinite(b)):
        return 0.0
    return max(-1.0, min(1.0, math.fsum((x / a) * (y / b) for x, y in zip(one, other, strict=True))))


def cut_text(text: str, tokenizer: Tokenizer, most: int) -> str:
    """The longest beginning of the text, of those that halving finds, that has at most ``most`` tokens."""
    if _fits(text, tokenizer, most):
        return text
    fitting, length = 0, len(text)
    while length - fitting > 1:
        middle = (fitting + length) // 2
        if _fits(text[:middle], tokenizer, most):
            fitting = middle
        else:
            length = middle
    return text[:fitting]


def _fits(text: str, tokenizer: Tokenizer, most: int) -> bool:
    return may_fit([text], tokenizer, most) and len(encode_pieces([text], tokenizer, limit=most)) <= most


def _shortened(comparison: Comparison, tokenizer: Tokenizer, most: int) -> Comparison:
    documents = [Placed(cut_text(one.text, tokenizer, most), one.path) for one in comparison.documents]
    return Comparison(comparison.query, documents)


def _by_embeddings(model: Model, comparisons: Sequence[Comparison], limit: int | None) -> RankingPlan:
    """Each text is embedded once, however often it is compared."""
    numbers: dict[str, int] = {}
    paths: list[str] = []
    for placed in chain.from_iterable((one.query, *one.documents) for one in comparisons):
        if placed.text not in numbers:
            numbers[placed.text] = len(numbers)
            paths.append(placed.path)
    pairs = [(numbers[one.query.text], numbers[other.text]) for one in comparisons for other in one.documents]
    return RankingPlan(
        model,
        embedding=plan_embedding(model, list(numbers), limit=limit, paths=paths),
        pairs=tuple(pairs),
    )


def _fitted(
    model: Model, spec: RankingSpec, comparison: Comparison, most: int, *, cuts: bool
) -> tuple[str, tuple[str, ...]]:
    """The query and the documents; a query that leaves no room is an error, a document that is too long may be cut."""
    query = comparison.query
    room = most - spec.frame - _count(model, query.text, most)
    if room < 1:
        raise _too_long(model, query, most, "query")
    return query.text, tuple(_document(model, one, room, most, cuts=cuts) for one in comparison.documents)


def _document(model: Model, document: Placed, room: int, most: int, *, cuts: bool) -> str:
    if cuts:
        return cut_text(document.text, model.tokenizer, room)
    if not _fits(document.text, model.tokenizer, room):
        raise _too_long(model, document, most, "document")
    return document.text


def _count(model: Model, text: str, most: int) -> int:
    """Tokens of the text; of one with more than ``most``, ``most`` + 1."""
    return len(encode_pieces([text], model.tokenizer, limit=most)) if _may(model, text, most) else most + 1


def _may(model: Model, text: str, most: int) -> bool:
    return may_fit([text], model.tokenizer, most)


def _too_long(model: Model, placed: Placed, most: int, what: str) -> ContextError:
    return ContextError(
        f"the {what} has {count_of(model, [placed.text], most)} tokens, and {model.name!r} reads {most} of query, "
        "document and what frames them",
        position=Position(path=placed.path),
        hint=TOO_LONG,
    )


async def _by_pairs(plan: RankingPlan, tenant: Tenant) -> Ranking:
    engine = plan.model.engine
    if not isinstance(engine, Ranker):
        raise UnsupportedError(f"{plan.model.name!r} ranks no documents", position=Position(path="model"))
    parts = [await engine.rank(query, documents, tenant=tenant) for query, documents in _batches(plan)]
    return Ranking(tuple(score for part in parts for score in part.scores), sum(part.tokens for part in parts))


def _batches(plan: RankingPlan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a caller who goes away leaves behind is no more than one of them."""
    for query, documents in plan.queries:
        for first in range(0, len(documents), BATCH):
            yield query, documents[first : first + BATCH]
