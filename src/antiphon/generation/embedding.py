"""Texts → vectors: planned like a turn, then run by the engine in small batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from antiphon.conversation import Conversation, Message, Role
from antiphon.engines import Embeddings
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Control, Piece, SampledText, encode_pieces, may_fit

from .model import EmbeddingSpec, Model
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
    """What the engine will be given, of texts and of ids of this model's vocabulary, which need not be framed yet.

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
