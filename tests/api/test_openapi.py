"""The description tells the truth: at its bounds a number is taken, beyond them it is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.api import Limits
from antiphon.api.openapi import document
from kit.api import post, running
from kit.bad_requests import GOOD
from kit.obliging import chatting_and_embedding

LIMITS = Limits()
SCHEMAS = json.loads(document(LIMITS))["components"]["schemas"]
ROUTES = {
    "ChatRequest": "/v1/chat/completions", "CompletionRequest": "/v1/completions", "ResponsesRequest": "/v1/responses",
    "InteractiveRequest": "/v1/chat/interactive", "RenderRequest": "/v1/render",
}  # fmt: skip
BESIDE: dict[str, dict[str, Any]] = {
    "top_logprobs": {"logprobs": True},
    "best_of": {"n": 1},
}
"""What makes a field matter."""


def numbers() -> Iterator[tuple[str, str, float, bool]]:
    """(route, field, value, whether it may be taken) at each bound and one step beyond."""
    for kind, route in ROUTES.items():
        for name, keywords in SCHEMAS[kind]["properties"].items():
            step = 0.001 if any(one.get("type") == "number" for one in keywords.get("anyOf", ())) else 1
            for word, sign in (("minimum", -1), ("maximum", 1)):
                if word in keywords:
                    yield route, name, keywords[word], True
                    yield route, name, keywords[word] + sign * step, False
            if "exclusiveMinimum" in keywords:
                yield route, name, keywords["exclusiveMinimum"], False
                yield route, name, keywords["exclusiveMinimum"] + step, True


def refused_fields() -> Iterator[tuple[str, str]]:
    for kind, route in ROUTES.items():
        for name, keywords in SCHEMAS[kind]["properties"].items():
            if keywords.get("type") == "null":
                yield route, name


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(chatting_and_embedding()) as url:
        yield url


@pytest.mark.parametrize(("route", "name", "value", "taken"), list(numbers()))
def test_a_number_is_taken_at_its_bounds_and_refused_beyond(
    base: str, route: str, name: str, value: float, taken: bool
) -> None:
    got = post(base, route, **{**GOOD[route], **BESIDE.get(name, {}), name: value})
    assert (got.status == 200) is taken, got.body
    if not taken:
        assert got.error["param"] == name


@pytest.mark.parametrize(("route", "name"), list(refused_fields()))
def test_a_field_that_is_reported_as_refused_is_refused(base: str, route: str, name: str) -> None:
    for value in (["x"], 5, {"a": "b"}, "x"):
        got = post(base, route, **{**GOOD[route], name: value})
        assert (got.status, got.error["param"].partition("[")[0]) == (400, name), got.body


def test_lists_have_the_lengths_of_this_servers_limits() -> None:
    few = json.loads(document(Limits(max_messages=7, max_n=3)))["components"]["schemas"]["ChatRequest"]["properties"]
    assert few["messages"]["maxItems"] == 7
    assert few["n"]["maximum"] == 3
