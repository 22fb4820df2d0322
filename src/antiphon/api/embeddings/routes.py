"""POST /v1/embeddings."""

from __future__ import annotations

import secrets

from antiphon.generation import embed, plan_embedding
from antiphon.http.post import Post, PostRoute

from .wire import EmbeddingRequest, embedding_list, to_inputs


class MakeEmbeddings(PostRoute):
    """One unit vector an input."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(EmbeddingRequest)
        inputs = to_inputs(wire, self._context.limits)
        model = await post.model(self._context.source.embedding if wire.model is None else wire.model)
        plan = await post.off_loop(
            lambda: plan_embedding(
                model,
                inputs,
                dimensions=wire.dimensions,
                truncate=wire.error_behavior == "truncate",
                limit=wire.truncate_prompt_tokens,
            )
        )
        async with post.admitted():
            embeddings = await post.context.lifecycle.run(embed(plan, tenant=post.exchange.tenant))
        post.charge(prompt=embeddings.tokens)
        self._context.metrics.prompt_tokens.labels(model.name).inc(embeddings.tokens)
        id, base64 = f"embd-{secrets.token_hex(12)}", wire.encoding_format == "base64"
        await post.send_json(embedding_list(embeddings, id=id, model=model.name, base64=base64))
