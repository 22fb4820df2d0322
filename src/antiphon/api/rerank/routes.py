"""POST /v1/rerank and /v1/score, under all the names that their clients know."""

from __future__ import annotations

import secrets
import time
from typing import Literal

from starlette.responses import Response

from antiphon.api.openapi.parts import Described, operation, schema
from antiphon.engines import Ranking
from antiphon.generation import Model, RankingPlan, plan_ranking, rank
from antiphon.http.post import Post, PostRoute
from antiphon.wire.json import encode

from .wire import (
    RerankAnswer,
    RerankRequest,
    ScoreList,
    ScoreRequest,
    TextRank,
    limit_of,
    rerank_answer,
    score_list,
    to_comparison,
    to_comparisons,
)

METHOD = "x-antiphon-scores"
"""The header that says what the scores are: `RankingPlan.method`."""


class Ranks(PostRoute):
    """The steps of both: planned, admitted, run and counted as embeddings are."""

    async def _model(self, post: Post, name: str | None) -> Model:
        source = self._context.source
        return await post.model(source.ranking or source.embedding if name is None else name)

    async def _run(self, post: Post, plan: RankingPlan) -> Ranking:
        async with post.admitted():
            ranking = await post.context.lifecycle.run(rank(plan, tenant=post.exchange.tenant))
        post.charge(prompt=ranking.tokens)
        self._context.metrics.prompt_tokens.labels(plan.model.name).inc(ranking.tokens)
        return ranking

    async def _send(self, post: Post, plan: RankingPlan, value: object) -> None:
        headers = {METHOD: plan.method}
        await post.send_response(Response(encode(value), media_type="application/json", headers=headers))


class Rerank(Ranks):
    """The documents that answer a query best."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(RerankRequest)
        comparison = to_comparison(wire, self._context.limits)
        model = await self._model(post, wire.model)
        limit, most = limit_of(wire), wire.max_tokens_per_doc
        plan = await post.off_loop(lambda: plan_ranking(model, [comparison], limit=limit, document_limit=most))
        ranking = await self._run(post, plan)
        id = f"rerank-{secrets.token_hex(12)}"
        version: Literal["1", "2"] = "2" if post.exchange.path.startswith("/v2") else "1"
        answer = rerank_answer(wire, comparison, ranking, id=id, model=model.name, version=version)
        await self._send(post, plan, answer)


class Score(Ranks):
    """How well texts fit, pair by pair."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(ScoreRequest)
        comparisons = to_comparisons(wire, self._context.limits)
        model = await self._model(post, wire.model)
        plan = await post.off_loop(lambda: plan_ranking(model, comparisons, limit=wire.truncate_prompt_tokens))
        ranking = await self._run(post, plan)
        id, created = f"score-{secrets.token_hex(12)}", int(time.time())
        await self._send(post, plan, score_list(ranking, id=id, model=model.name, created=created))


def _described() -> Described:
    """A request with ``texts`` is answered by a list."""
    rerank = operation("The documents that answer a query best.", RerankAnswer, body=RerankRequest)
    texts = {"type": "array", "items": schema(TextRank)["schema"]}
    either = {"schema": {"anyOf": [schema(RerankAnswer)["schema"], texts]}}
    rerank["responses"]["200"]["content"]["application/json"] = either
    score = operation("How well texts fit, pair by pair.", ScoreList, body=ScoreRequest)
    kinds = (RerankRequest, RerankAnswer, TextRank, ScoreRequest, ScoreList)
    paths = {"/v1/rerank": rerank, "/v1/reranking": rerank, "/v1/score": score}
    return Described(kinds, {path: {"post": described} for path, described in paths.items()})


DESCRIBED = _described()
