"""What is counted, and who may read it."""

from __future__ import annotations

import pytest

from antiphon.api import Limits, Scope, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.http.gate.keys import new_key
from kit.api import END, app, chat, ids, post, request, running, scripted
from kit.obedient import counting
from kit.waiting import wait_until


def test_metrics_count_requests_and_tokens_and_hold_no_content() -> None:
    with running(app(ids("secret answer", END))) as base:
        chat(base, stream=True, messages=[{"role": "user", "content": "secret question"}], odd=1)
        request(base, "GET", "/secret-path")
        metrics = request(base, "GET", "/metrics").body.decode()
    assert 'antiphon_requests_total{method="POST",route="/chat/completions",status="200"} 1.0' in metrics
    assert 'antiphon_requests_total{method="GET",route="other",status="404"} 1.0' in metrics
    assert 'antiphon_completion_tokens_total{model="small"} 14.0' in metrics
    assert 'antiphon_turns_total{model="small",reason="stop_eos"} 1.0' in metrics
    assert 'antiphon_time_to_first_token_seconds_count{model="small"} 1.0' in metrics
    assert 'antiphon_turns_running{model="small"} 0.0' in metrics
    assert "antiphon_ignored_fields_total 1.0" in metrics
    assert "secret" not in metrics


def test_metrics_are_for_the_scope_admin() -> None:
    secret, alice = new_key("alice")
    admin_secret, admin = new_key("admin", [Scope.ADMIN])
    with running(app(ids("ok", END), keys=[alice, admin])) as base:
        for path in ("/metrics", "/v1/metrics", "/v1/v1/metrics"):
            answers = [request(base, "GET", path, x_api_key=key).status for key in (secret, admin_secret, "x")]
            assert answers == [403, 200, 401], path


def test_metrics_may_be_for_everybody_and_nothing_else_with_them() -> None:
    _, alice = new_key("alice")
    with running(app(ids("ok", END), keys=[alice], public_metrics=True)) as base:
        for prefix in ("", "/v1", "/v1/v1"):
            assert request(base, "GET", f"{prefix}/metrics").status == 200
            assert request(base, "GET", f"{prefix}/models").status == 401
        assert chat(base).status == 401


@pytest.mark.one_process("of what a key used the workers tell each other once a second")
def test_a_key_that_asked_for_enough_learns_when_to_come_again() -> None:
    with running(app(ids("ok", END), limits=Limits(requests_per_minute=2))) as base:
        first, _, third = (chat(base) for _ in range(3))
    assert (first.status, first.headers["x-ratelimit-remaining-requests"]) == (200, "1")
    assert (third.status, third.error["code"], third.error["type"]) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert 25 <= int(third.headers["retry-after"]) <= 31


@pytest.mark.one_process("of what a key used the workers tell each other once a second")
def test_what_answers_cost_is_charged_to_the_key() -> None:
    with running(app(ids("ok" * 20, END), limits=Limits(tokens_per_minute=30))) as base:
        assert [chat(base).status for _ in range(2)] == [200, 429]


def test_a_model_that_says_nothing_in_time_is_a_504() -> None:
    engine = scripted(ids("word " * 50, END), delay=60)
    with running(app(engine, limits=Limits(first_token_timeout=0.05))) as base:
        got = chat(base)
        assert (got.status, got.error["code"]) == (504, "first_token_timeout")
        wait_until(lambda: engine.running == 0)


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
