"""POST /v1/embeddings."""

from __future__ import annotations

import secrets
import struct
from base64 import b64encode
from collections.abc import Sequence

from antiphon.api.post import Post, PostRoute
from antiphon.config import Limits
from antiphon.generation import embed, plan_embedding
from antiphon.wire.completions.schema import Prompt
from antiphon.wire.embeddings.schema import EmbeddingList, EmbeddingObject, EmbeddingRequest, EmbeddingUsage
from antiphon.wire.errors import refused


class MakeEmbeddings(PostRoute):
    """One unit vector a text."""

    async def answer(self, post: Post) -> None:
        wire = post.read(EmbeddingRequest)
        texts = read_texts(wire.input, self._context.limits)
        before = f"{wire.instruction} " if wire.instruction else ""
        model = await post.model(wire.model or self._context.source.embedding)
        plan = await post.off_loop(
            lambda: plan_embedding(
                model,
                [before + text for text in texts],
                dimensions=wire.dimensions,
                truncate=wire.error_behavior == "truncate",
            )
        )
        async with post.admitted():
            made = await post.run(embed(plan))
        post.spent(prompt=made.tokens)
        self._context.metrics.prompt_tokens.labels(model.name).inc(made.tokens)
        written = as_base64 if wire.encoding_format == "base64" else list
        await post.send_json(
            EmbeddingList(
                id=f"embd-{secrets.token_hex(12)}",
                data=[EmbeddingObject(index=i, embedding=written(vector)) for i, vector in enumerate(made.vectors)],
                model=model.name,
                usage=EmbeddingUsage(made.tokens, made.tokens),
            )
        )


def read_texts(input: Prompt, limits: Limits) -> list[str]:
    """The texts of a request. Ids are refused: nothing tells that they are of this model's vocabulary."""
    texts = [input] if isinstance(input, str) else input
    if not 1 <= len(texts) <= limits.max_inputs:
        raise refused("input", f"there are {len(texts)} inputs; from 1 to {limits.max_inputs} are possible.")
    read = [text for text in texts if isinstance(text, str)]
    if len(read) < len(texts):
        raise refused(
            "input",
            "token ids are not read: they are likely of another model's vocabulary.",
            hint="Send texts; with langchain's OpenAIEmbeddings set check_embedding_ctx_length=False.",
        )
    return read


def as_base64(vector: Sequence[float]) -> str:
    """What the official clients ask for: half the bytes of the numbers."""
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
