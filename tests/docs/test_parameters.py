"""What an engine cannot do is refused by its name, and what is taken is described."""

from __future__ import annotations

import json
from functools import cache

import jsonschema_rs
import pytest

from antiphon.api import Limits
from antiphon.api.builtin import BUILT_IN
from antiphon.api.openapi.document import document
from antiphon.engines import EngineInfo
from docs.declared import kinds
from docs.parameters import READING, ROUTES, SERVERS, answered


@cache
def components() -> object:
    return json.loads(document(Limits(), [wire.described for wire in BUILT_IN]))["components"]


@cache
def described_as(kind: str) -> jsonschema_rs.Validator:
    """The request as /openapi.json has it."""
    return jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{kind}", "components": components()})


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(info, id=f"{kind.name} at its {extreme}")
        for kind in kinds()
        for extreme, info in {"best": kind.best, "least": kind.least}.items()
    ],
)
async def test_what_an_engine_cannot_honour_is_refused_by_its_name(info: EngineInfo) -> None:
    refused = set()
    for _, path, kind, samples, least in ROUTES:
        if path in READING:
            continue
        described = described_as(kind.__name__)
        for name, sample in samples.items():
            got = await answered(SERVERS.of(info), path, {**least, **sample})
            if got.status == 200:
                described.validate({**least, **sample})
                continue
            refused.add(name)
            assert got.status == 400, got.body
            error = got.json["error"]
            if path.startswith("/api/"):
                assert name.partition(",")[0] in error
                continue
            assert error["type"] == "invalid_request_error"
            assert error.get("param", error["message"]).startswith(name.partition(",")[0]), (name, got.body)
    assert ("n" in refused) is (info.slots < 2)
    assert ("tool_choice" in refused) is (not info.grammar)
    assert ("tools, strict" in refused) is (not info.grammar)


@pytest.mark.parametrize(
    "fields", [{"background": False}, {"best_of": 1}, {"functions": []}, {"min_tokens": 8, "n_predict": 8}], ids=str
)
async def test_a_value_of_a_refused_field_that_can_be_honoured_is_taken(fields: dict[str, object]) -> None:
    app = SERVERS.of(next(kinds()).best)
    least = next(least for _, path, _, _, least in ROUTES if path == "/v1/chat/completions")
    assert (await answered(app, "/v1/chat/completions", {**least, **fields})).status == 200
