"""Vectors → the answer to an embedding request."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Sequence

from antiphon.engines import Embeddings

from .wire import EmbeddingList, EmbeddingObject, EmbeddingUsage


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
    """What the official clients request: half the bytes of the numbers."""
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
