"""Embeddings on the wire. Null means absent; unknown fields are ignored and counted."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Sequence
from typing import Literal

import msgspec

from antiphon.api.completions.schema import Prompt
from antiphon.config import Limits
from antiphon.engines import Embeddings
from antiphon.wire.errors import refused
from antiphon.wire.names.translate import PromptFields


class EmbeddingRequest(PromptFields, kw_only=True):
    """The body of POST /v1/embeddings. ``instruction`` precedes every text, one blank between.

    ``truncate_prompt_tokens``: tokens to which an input is cut at its end; -1: as many as the model reads.
    """

    input: Prompt
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    instruction: str | None = None
    error_behavior: Literal["error", "truncate"] | None = None
    truncate_prompt_tokens: int | None = None
    user: str | None = None


class EmbeddingUsage(msgspec.Struct, frozen=True):
    """Resolution D-02: nothing is completed, so there is no count of it."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingObject(msgspec.Struct, frozen=True, kw_only=True):
    """A unit vector: numbers, or the base64 of little-endian 32-bit floats."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, in the order of the inputs."""

    id: str
    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingUsage


# An embedding request → the texts and ids that are embedded.

Inputs = list[str | list[int]]


def to_inputs(wire: EmbeddingRequest, limits: Limits) -> Inputs:
    """The inputs of a request: texts, each behind its instruction, and ids as they are. Raises `RequestError`."""
    inputs = _inputs(wire)
    if not 1 <= len(inputs) <= limits.max_inputs:
        raise refused("input", f"there are {len(inputs)} inputs; from 1 to {limits.max_inputs} are possible.")
    if not wire.instruction:
        return inputs
    return [f"{wire.instruction} {text}" for text in inputs if _is_text(text)]


def _inputs(wire: EmbeddingRequest) -> Inputs:
    """One text, the ids of one, or a list of both."""
    if isinstance(wire.input, str):
        return [wire.input]
    several = [one for one in wire.input if not isinstance(one, int)]
    if len(several) == len(wire.input):
        return list(several)
    if several:
        raise refused("input", "ids stand beside texts or lists of ids; put them into a list of their own.")
    return [[one for one in wire.input if isinstance(one, int)]]


def _is_text(given: str | list[int]) -> bool:
    if not isinstance(given, str):
        raise refused("instruction", "it is text, which cannot stand before token ids.")
    return True


# Vectors → the answer to an embedding request.


def embedding_list(embeddings: Embeddings, *, id: str, model: str, base64: bool) -> EmbeddingList:
    """The whole answer; ``base64`` vectors are little-endian 32-bit floats."""
    written = as_base64 if base64 else list
    return EmbeddingList(
        id=id,
        data=[EmbeddingObject(index=i, embedding=written(vector)) for i, vector in enumerate(embeddings.vectors)],
        model=model,
        usage=EmbeddingUsage(embeddings.tokens, embeddings.tokens),
    )


def as_base64(vector: Sequence[float]) -> str:
    """Encodes floats as the official clients request them: half the bytes of the numbers."""
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
