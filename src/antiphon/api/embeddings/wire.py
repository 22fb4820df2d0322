"""Embeddings on the wire. Null means absent; unknown fields are ignored and counted."""

from __future__ import annotations

from typing import Literal

import msgspec

from antiphon.api.completions.schema import Prompt
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
