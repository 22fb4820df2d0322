"""Texts → vectors: planned like a turn, then run by the engine in small batches."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import chain, takewhile
from typing import Literal

import msgspec

from antiphon.conversation import Conversation, Message, Role
from antiphon.engines import Embeddings, Ranker, Ranking
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Control, Piece, SampledText, Tokenizer, encode_pieces, may_fit

from .model import EmbeddingSpec, Model, RankingSpec
from .plan import count_of

BATCH = 32
"""Texts that an engine gets at once: what a caller who goes away leaves behind is no more than that."""
TOO_LONG = "Send less, or let it be cut: truncate_prompt_tokens -1."


class EmbeddingPlan(msgspec.Struct, frozen=True):
    """The ids of every text, framed as the model was trained, and how many numbers of each vector are requested."""

    model: Model
    inputs: tuple[tuple[int, ...], ...]
    dimensions: int

    @property
    def tokens(self) -> int:
        return sum(map(len, self.inputs))


def plan_embedding(
    model: Model,
    inputs: Sequence[str | Sequence[int]],
    *,
    dimensions: int | None = None,
    truncate: bool = False,
    limit: int | None = None,
    paths: Sequence[str] | None = None,
) -> EmbeddingPlan:
    """Plans the embeddings of texts and of ids of this model's vocabulary, which need not be framed yet.

    An input that is too long is an error, or cut at its end: to ``limit`` tokens (-1: as many as the model reads), with
    ``truncate`` to those. ``paths`` are where the request has the inputs.
    Errors: `UnsupportedError` for a model that does not embed or ``dimensions`` that it does not have, `ContextError`,
    `RequestError` at an input or at ``truncate_prompt_tokens``, which is ``limit``.
    """
    spec = model.embedding
    if spec is None:
        instead = "Request /v1/rerank of it, or name" if model.ranking else "Name"
        hint = f"{instead} a model that does, or leave model out."
        raise UnsupportedError(f"{model.name!r} makes no embeddings", position=Position(path="model"), hint=hint)
    if dimensions is not None and not spec.has(dimensions):
        raise UnsupportedError(_other_size(model.name, spec), position=Position(path="dimensions"))
    if paths is None:
        paths = ["input"] if len(inputs) == 1 else [f"input[{i}]" for i in range(len(inputs))]
    most, cuts = context_limit(model, limit), truncate or limit is not None
    planned = tuple(_input(model, one, path, most, cuts=cuts) for one, path in zip(inputs, paths, strict=True))
    return EmbeddingPlan(model, planned, spec.size if dimensions is None else dimensions)


def _other_size(name: str, spec: EmbeddingSpec) -> str:
    if spec.shortens:
        return f"the embeddings of {name!r} have at most {spec.size} dimensions"
    if spec.shorter:
        return f"the embeddings of {name!r} have {spec.size} dimensions, or {', '.join(map(str, spec.shorter))}"
    fewer = "the model is not known to have embeddings that can be shortened"
    return f"the embeddings of {name!r} have {spec.size} dimensions, and {fewer}"


def context_limit(model: Model, limit: int | None) -> int:
    """Tokens that the model may read at once, of which a request wants ``limit``. Raises `RequestError`."""
    if limit in (None, -1):
        return model.context
    assert limit is not None
    frame = len(_frame(model, begin=True)) + len(_frame(model, begin=False)) if model.embedding else 0
    if not frame < limit <= model.context:
        raise RequestError(
            f"truncate_prompt_tokens: {limit} is not -1 or from {frame + 1} to {model.context}.",
            code="invalid_value",
            position=Position(path="truncate_prompt_tokens"),
        )
    return limit


async def embed(plan: EmbeddingPlan, *, tenant: Tenant = NOBODY) -> Embeddings:
    """One vector of length 1 a text, in their order; ``tenant`` says whose they are. Errors are the engine's."""
    vectors: list[tuple[float, ...]] = []
    for first in range(0, len(plan.inputs), BATCH):
        made = await plan.model.engine.embed(plan.inputs[first : first + BATCH], tenant=tenant)
        vectors += made.vectors
    return Embeddings(tuple(_shortened(vector, plan.dimensions) for vector in vectors), plan.tokens)


def _input(model: Model, given: str | Sequence[int], path: str, most: int, *, cuts: bool) -> tuple[int, ...]:
    pieces = _framed(model, given) if isinstance(given, str) else _framed_ids(model, given, path)
    may = cuts or may_fit(pieces, model.tokenizer, most)
    ids = tuple(encode_pieces(pieces, model.tokenizer, limit=most)) if may else ()
    if may and not ids:
        raise RequestError("a text is empty", code="invalid_value", position=Position(path=path))
    if may and len(ids) <= most:
        return ids
    if not cuts:
        raise ContextError(
            f"the text has {count_of(model, pieces, most)} tokens and {model.name!r} reads {most}",
            position=Position(path=path),
            hint=TOO_LONG,
        )
    ending = tuple(encode_pieces(_frame(model, begin=False), model.tokenizer))
    return ids[: most - len(ending)] + ending


def _framed(model: Model, text: str) -> list[Piece]:
    return list(model.format.render(Conversation((Message(role=Role.USER, text=text),)), reply_as=None))


def _frame(model: Model, *, begin: bool) -> list[Piece]:
    """The controls before a text, or those behind it."""
    pieces = _framed(model, "x")
    found = list(takewhile(lambda piece: isinstance(piece, Control), pieces if begin else reversed(pieces)))
    return found if begin else found[::-1]


def _framed_ids(model: Model, ids: Sequence[int], path: str) -> list[Piece]:
    """The ids as one text, framed where they are not yet."""
    tokenizer = model.tokenizer
    unknown = next((i for i, id in enumerate(ids) if not 0 <= id < tokenizer.size), None)
    if unknown is not None:
        raise RequestError(
            f"{path}[{unknown}]: the vocabulary of {model.name!r} has no token {ids[unknown]}.",
            code="invalid_value",
            position=Position(path=f"{path}[{unknown}]"),
            hint="Send texts; with langchain's OpenAIEmbeddings set check_embedding_ctx_length=False.",
        )
    if not ids:
        raise RequestError(f"{path}: there are no ids.", code="invalid_value", position=Position(path=path))
    begin, end = _frame(model, begin=True), _frame(model, begin=False)
    first, last = encode_pieces(begin, tokenizer), encode_pieces(end, tokenizer)
    before = [] if list(ids[: len(first)]) == first else begin
    behind = [] if list(ids[len(ids) - len(last) :]) == last else end
    return [*before, SampledText("", tuple(ids), tokenizer.name), *behind]


def _shortened(vector: tuple[float, ...], dimensions: int) -> tuple[float, ...]:
    if dimensions >= len(vector):
        return vector
    beginning = vector[:dimensions]
    length = math.sqrt(sum(value * value for value in beginning)) or 1.0
    return tuple(value / length for value in beginning)


# How well documents answer a query: by a model that reads both as one, or by the cosine of their embeddings.

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
    """The engine's input: a query and its documents, all cut to what fits; or the embeddings of all texts.

    ``pairs`` are the numbers of two embeddings each; ``embedding`` None: the model reads pairs itself.
    """

    model: Model
    queries: tuple[tuple[str, tuple[str, ...]], ...] = ()
    embedding: EmbeddingPlan | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def method(self) -> Method:
        """The kind of the scores: cosines from -1 to 1, or the sigmoid of a cross-encoder's logit, from 0 to 1."""
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
        comparisons = [_cut(one, model.tokenizer, document_limit) for one in comparisons]
    if model.ranking is None:
        return _by_embeddings(model, comparisons, limit)
    most = context_limit(model, limit)
    queries = tuple(_fitted(model, model.ranking, one, most, cuts=limit is not None) for one in comparisons)
    return RankingPlan(model, queries)


async def rank(plan: RankingPlan, *, tenant: Tenant = NOBODY) -> Ranking:
    """A score for each document of each comparison, in their order. Errors are the engine's."""
    if plan.embedding is not None:
        made = await embed(plan.embedding, tenant=tenant)
        scores = await asyncio.to_thread(lambda: tuple(cosine(made.vectors[a], made.vectors[b]) for a, b in plan.pairs))
        return Ranking(scores, made.tokens)
    engine = plan.model.engine
    if not isinstance(engine, Ranker):
        raise UnsupportedError(f"{plan.model.name!r} ranks no documents", position=Position(path="model"))
    parts = [
        await engine.rank(query, documents[first : first + BATCH], tenant=tenant)
        for query, documents in plan.queries
        for first in range(0, len(documents), BATCH)
    ]
    return Ranking(tuple(score for part in parts for score in part.scores), sum(part.tokens for part in parts))


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


def _cut(comparison: Comparison, tokenizer: Tokenizer, most: int) -> Comparison:
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
    fits = may_fit([text], model.tokenizer, most)
    return len(encode_pieces([text], model.tokenizer, limit=most)) if fits else most + 1


def _too_long(model: Model, placed: Placed, most: int, what: str) -> ContextError:
    return ContextError(
        f"the {what} has {count_of(model, [placed.text], most)} tokens, and {model.name!r} reads {most} of query, "
        "document and what frames them",
        position=Position(path=placed.path),
        hint=TOO_LONG,
    )
