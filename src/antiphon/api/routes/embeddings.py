"""POST /v1/embeddings."""

from __future__ import annotations

import secrets

from antiphon.api.post import Post, PostRoute
from antiphon.generation import embed, plan_embedding
from antiphon.wire.embeddings.read import to_texts
from antiphon.wire.embeddings.schema import EmbeddingRequest
from antiphon.wire.embeddings.write import embedding_list


class MakeEmbeddings(PostRoute):
    """One unit vector a text."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(EmbeddingRequest)
        texts = to_texts(wire, self._context.limits)
        model = await post.model(wire.model or self._context.source.embedding)
        truncate = wire.error_behavior == "truncate"
        plan = await post.off_loop(lambda: plan_embedding(model, texts, dimensions=wire.dimensions, truncate=truncate))
        async with post.admitted():
            embeddings = await post.run(embed(plan, tenant=post.exchange.tenant))
        post.spent(prompt=embeddings.tokens)
        self._context.metrics.prompt_tokens.labels(model.name).inc(embeddings.tokens)
        id, base64 = f"embd-{secrets.token_hex(12)}", wire.encoding_format == "base64"
        await post.send_json(embedding_list(embeddings, id=id, model=model.name, base64=base64))
