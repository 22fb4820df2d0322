"""Texts → vectors: planned like a turn, then run by the engine in small batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from antiphon.conversation import Conversation, Message, Role
from antiphon.engines import Embeddings
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Control, encode_pieces, may_fit

from .model import Model
from .plan import count_of

BATCH = 32
"""Texts that an engine gets at once: what a caller who goes away leaves behind is no more than that."""


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """The ids of every text, framed as the model was trained, and how many numbers of each vector are requested."""

    model: Model
    inputs: tuple[tuple[int, ...], ...]
    dimensions: int

    @property
    def tokens(self) -> int:
        return sum(map(len, self.inputs))


def plan_embedding(
    model: Model, texts: Sequence[str], *, dimensions: int | None = None, truncate: bool = False
) -> EmbeddingPlan:
    """What the engine will be given. A text that is too long is an error, or with ``truncate`` cut at its end.

    Errors: `UnsupportedError` for a model that does not embed or ``dimensions`` that it does not have, `ContextError`.
    """
    spec = model.embedding
    if spec is None:
        hint = "Name a model that does, or leave model out."
        raise UnsupportedError(f"{model.name!r} makes no embeddings", position=Position(path="model"), hint=hint)
    if dimensions is not None and not (dimensions == spec.size or (spec.shortens and 0 < dimensions < spec.size)):
        fewer = "" if spec.shortens else ", and the model is not known to have embeddings that can be shortened"
        raise UnsupportedError(
            f"the embeddings of {model.name!r} have {spec.size} dimensions{fewer}",
            position=Position(path="dimensions"),
        )
    one = len(texts) == 1
    inputs = tuple(
        _input(model, text, "input" if one else f"input[{i}]", truncate=truncate) for i, text in enumerate(texts)
    )
    return EmbeddingPlan(model, inputs, spec.size if dimensions is None else dimensions)


async def embed(plan: EmbeddingPlan, *, tenant: Tenant = NOBODY) -> Embeddings:
    """One vector of length 1 a text, in their order; ``tenant`` says whose they are. Errors are the engine's."""
    vectors: list[tuple[float, ...]] = []
    for first in range(0, len(plan.inputs), BATCH):
        made = await plan.model.engine.embed(plan.inputs[first : first + BATCH], tenant=tenant)
        vectors += made.vectors
    return Embeddings(tuple(_shortened(vector, plan.dimensions) for vector in vectors), plan.tokens)


def _input(model: Model, text: str, path: str, *, truncate: bool) -> tuple[int, ...]:
    pieces = list(model.format.render(Conversation((Message(role=Role.USER, text=text),)), reply_as=None))
    may = truncate or may_fit(pieces, model.tokenizer, model.context)
    ids = tuple(encode_pieces(pieces, model.tokenizer, limit=model.context)) if may else ()
    if may and not ids:
        raise RequestError("a text is empty", code="invalid_value", position=Position(path=path))
    if may and len(ids) <= model.context:
        return ids
    if not truncate:
        raise ContextError(
            f"the text has {count_of(model, pieces, model.context)} tokens and {model.name!r} reads {model.context}",
            position=Position(path=path),
            hint='Send less, or say error_behavior "truncate".',
        )
    end = list(takewhile(lambda piece: isinstance(piece, Control), reversed(pieces)))
    ending = tuple(encode_pieces(reversed(end), model.tokenizer))
    return ids[: model.context - len(ending)] + ending


def _shortened(vector: tuple[float, ...], dimensions: int) -> tuple[float, ...]:
    if dimensions >= len(vector):
        return vector
    beginning = vector[:dimensions]
    length = math.sqrt(sum(value * value for value in beginning)) or 1.0
    return tuple(value / length for value in beginning)
