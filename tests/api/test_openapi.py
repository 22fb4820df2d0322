"""The description tells the truth: at its bounds a number is taken, beyond them it is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.api import Limits
from antiphon.api.builtin import OLLAMA
from antiphon.api.openapi.document import document
from antiphon.wire.names.table import KNOWN
from kit.api import post, served
from kit.bad_requests import GOOD
from kit.obliging import chatting_and_embedding

LIMITS = Limits()
SCHEMAS = json.loads(document(LIMITS, [OLLAMA.described]))["components"]["schemas"]
ROUTES = {
    "ChatRequest": "/v1/chat/completions", "CompletionRequest": "/v1/completions", "ResponsesRequest": "/v1/responses",
    "InteractiveRequest": "/v1/chat/interactive", "RenderRequest": "/v1/render",
    "OllamaChatRequest": "/api/chat", "OllamaGenerateRequest": "/api/generate",
}  # fmt: skip
KIND_OF = {route: kind for kind, route in ROUTES.items()}
BESIDE: dict[str, dict[str, Any]] = {
    "top_logprobs": {"logprobs": True},
    "best_of": {"n": 1},
}
"""What makes a field matter."""
REFUSED = {("/v1/render", "session_id", 2**63 - 1)}
"""Values within their bounds that mean what the route does not do."""


def numbers() -> Iterator[tuple[str, str, float, bool]]:
    """(route, field, value, whether it may be taken) at each bound and one step beyond."""
    for kind, route in ROUTES.items():
        for name, keywords in SCHEMAS[kind]["properties"].items():
            step = 0.001 if any(one.get("type") == "number" for one in keywords.get("anyOf", ())) else 1
            for word, sign in (("minimum", -1), ("maximum", 1)):
                if word in keywords:
                    yield route, name, keywords[word], (route, name, keywords[word]) not in REFUSED
                    yield route, name, keywords[word] + sign * step, False
            if "exclusiveMinimum" in keywords:
                yield route, name, keywords["exclusiveMinimum"], False
                yield route, name, keywords["exclusiveMinimum"] + step, True


base = served(lambda: chatting_and_embedding())


@pytest.mark.parametrize(("route", "name", "value", "taken"), list(numbers()))
def test_a_number_is_taken_at_its_bounds_and_refused_beyond(
    base: str, route: str, name: str, value: float, taken: bool
) -> None:
    own = SCHEMAS[KIND_OF[route]]["properties"]
    beside = {key: needed for key, needed in BESIDE.get(name, {}).items() if key in own}
    got = post(base, route, **{**GOOD[route], **beside, name: value})
    assert (got.status == 200) is taken, got.body
    if not taken:
        assert name in got.json["error"] if route.startswith("/api/") else got.error["param"] == name


@pytest.mark.parametrize("kind", ROUTES)
def test_the_names_of_other_servers_that_are_honoured_are_described(kind: str) -> None:
    honoured = {row.name for row in KNOWN.values() if row.use in ("limit", "same", "constraint", "thinking")}
    assert honoured <= SCHEMAS[kind]["properties"].keys()
    assert "guided_json" not in SCHEMAS["EmbeddingRequest"]["properties"]


def test_lists_have_the_lengths_of_this_servers_limits() -> None:
    few = json.loads(document(Limits(max_messages=7, max_n=3)))["components"]["schemas"]["ChatRequest"]["properties"]
    assert few["messages"]["maxItems"] == 7
    assert few["n"]["maximum"] == 3
