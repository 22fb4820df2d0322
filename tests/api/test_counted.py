"""What embeddings read is counted and charged as what prompts have is."""

from __future__ import annotations

import pytest

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from kit.api import post, request, running
from kit.obedient import counting


def test_tokens_of_embeddings_are_counted_by_their_model() -> None:
    with running(create_app(StaticCatalog({"count": counting()}))) as base:
        used = sum(post(base, "/v1/embeddings", input=texts).json["usage"]["total_tokens"] for texts in ("abc", ["a"]))
        metrics = request(base, "GET", "/metrics").body.decode()
    assert used == len("abc") + len("a") + 2 * len(["begin", "end"])
    assert f'antiphon_prompt_tokens_total{{model="count"}} {float(used)}' in metrics


@pytest.mark.one_process("of what a key used the workers tell each other once a second")
def test_tokens_of_embeddings_are_charged_to_the_key() -> None:
    with running(create_app(StaticCatalog({"count": counting()}), limits=Limits(tokens_per_minute=30))) as base:
        assert [post(base, "/v1/embeddings", input="x" * 40).status for _ in range(2)] == [200, 429]
