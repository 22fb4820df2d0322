"""Values that require nothing are taken where their fields are refused."""

from __future__ import annotations

import pytest

from docs.declared import kinds
from docs.parameters import ROUTES, SERVERS, answered


@pytest.mark.parametrize(
    "fields", [{"background": False}, {"best_of": 1}, {"functions": []}, {"min_tokens": 8, "n_predict": 8}], ids=str
)
async def test_a_value_of_a_refused_field_that_can_be_honoured_is_taken(fields: dict[str, object]) -> None:
    app = SERVERS.of(next(kinds()).best)
    least = next(least for _, path, _, _, least in ROUTES if path == "/v1/chat/completions")
    assert (await answered(app, "/v1/chat/completions", {**least, **fields})).status == 200
