"""POST /api/embed and /api/embeddings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from antiphon.engines import Embeddings
from antiphon.generation import embed, plan_embedding
from antiphon.http.post import Post
from antiphon.wire.errors import refused

from .options import check_keep_alive
from .route import NamedModel, OllamaRoute, loaded_model
from .schema import KeepAlive, OllamaEmbedAnswer, OllamaEmbeddingsAnswer, OllamaEmbeddingsRequest, OllamaEmbedRequest


class OllamaEmbed(OllamaRoute):
    """One unit vector a text; no text is no vector."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaEmbedRequest)
        _note(post, wire.options, wire.keep_alive)
        texts = ([wire.input] if wire.input else []) if isinstance(wire.input, str) else wire.input
        most = self._context.limits.max_inputs
        if len(texts) > most:
            raise refused("input", f"there are {len(texts)} inputs; at most {most} are possible.")
        named = await loaded_model(post, wire.model)
        made = await _embedded(post, named, texts, wire.dimensions, truncate=wire.truncate is not False)
        await post.send_json(
            OllamaEmbedAnswer(
                model=named.name,
                embeddings=list(made.vectors),
                total_duration=round((time.perf_counter() - post.exchange.started) * 1e9),
                load_duration=round(named.waited * 1e9),
                prompt_eval_count=made.tokens,
            )
        )


class OllamaEmbeddings(OllamaRoute):
    """The vector of one text."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaEmbeddingsRequest)
        _note(post, wire.options, wire.keep_alive)
        named = await loaded_model(post, wire.model)
        made = await _embedded(post, named, [wire.prompt] if wire.prompt else [], None, truncate=True)
        await post.send_json(OllamaEmbeddingsAnswer(embedding=made.vectors[0] if made.vectors else ()))


def _note(post: Post, options: Mapping[str, object] | None, keep_alive: KeepAlive) -> None:
    """No option has an effect on a vector."""
    check_keep_alive(keep_alive)
    post.ignore(f"options.{name}" for name in options or {})


async def _embedded(
    post: Post, named: NamedModel, texts: Sequence[str], dimensions: int | None, *, truncate: bool
) -> Embeddings:
    model = named.model
    plan = await post.off_loop(lambda: plan_embedding(model, texts, dimensions=dimensions, truncate=truncate))
    if not texts:
        return Embeddings((), 0)
    async with post.admitted():
        made = await post.run(embed(plan, tenant=post.exchange.tenant))
    post.spent(prompt=made.tokens)
    post.context.metrics.prompt_tokens.labels(model.name).inc(made.tokens)
    return made
