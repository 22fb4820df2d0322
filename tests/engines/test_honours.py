"""What an engine says that it honours, it sends; what it does not name is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from antiphon.engines import EngineInfo, Sampling, sglang, vllm
from antiphon.engines.engine import SAMPLING
from antiphon.engines.grpc.engine import SERVICES
from antiphon.engines.grpc.service import GenerateInputs, Service
from antiphon.engines.http import HttpClient
from antiphon.engines.llama_cpp.wire import completion_body
from antiphon.errors import UnsupportedError
from antiphon.tokens.byte import ByteTokenizer

USUAL = Sampling(max_tokens=8)
CHANGED: dict[str, Any] = {
    "max_tokens": 7, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "seed": 5, "presence_penalty": 0.5,
    "frequency_penalty": 0.5, "repetition_penalty": 1.5, "logit_bias": {7: 1.0}, "logprobs": 3,
    "stop_ids": frozenset({9}), "ignore_eos": True, "min_tokens": 3, "whole": True, "confidence": True,
}  # fmt: skip
WISHES = {"whole", "confidence"}
IN_STEPS = {"stop_ids"}
"""Settings that the embedded engine keeps by itself, as it reads the steps."""

Body = Callable[[Sampling], object]


def remote(module: Any, kind: Any, seeds: bool) -> tuple[EngineInfo, Body]:
    more = {"seeds": seeds} if module is sglang else {}
    info: EngineInfo = module.declared(64, 2, grammar=True, **more)
    engine = kind(HttpClient("http://127.0.0.1:9", streams=1), "m", ByteTokenizer(), info)
    if module is sglang:
        return info, lambda sampling: engine._body([1, 2], sampling, None)
    return info, lambda sampling: engine.body([1, 2], sampling, n=1, grammar=None, domain="")


def over_grpc(service: Service) -> Body:
    return lambda sampling: service.request(GenerateInputs("id", [1, 2], sampling, sampling.max_tokens))


def engines() -> dict[str, tuple[frozenset[str], Body]]:
    """By name: what it honours, and its request for a sampling."""
    found: dict[str, tuple[frozenset[str], Body]] = {one.name: (one.honours, over_grpc(one)) for one in SERVICES}
    for name, module, kind in (
        ("vllm over completions", vllm, vllm.VllmEngine),
        ("vllm over ids", vllm, vllm.NativeVllmEngine),
        ("sglang over HTTP", sglang, sglang.SglangEngine),
    ):
        info, body = remote(module, kind, seeds=True)
        found[name] = (info.honours, body)
    found["llama.cpp"] = (SAMPLING, lambda sampling: completion_body([1], sampling, n=1, grammar=None, context=64))
    return found


def test_there_is_a_change_for_each_setting() -> None:
    assert CHANGED.keys() == {field.name for field in fields(Sampling)}


async def test_what_an_engine_honours_is_in_its_request_and_nothing_else_is() -> None:
    for name, (honours, body) in engines().items():
        for setting in CHANGED.keys() - WISHES:
            if name == "llama.cpp" and setting in IN_STEPS:
                continue
            sent = body(replace(USUAL, **{setting: CHANGED[setting]})) != body(USUAL)
            assert sent == (setting in honours), f"{name}: {setting}"


@pytest.mark.parametrize("setting", sorted(CHANGED.keys() - WISHES - {"max_tokens"}))
def test_what_an_engine_does_not_name_is_refused(setting: str) -> None:
    info = EngineInfo(name="x", context=64, slots=1, honours=SAMPLING - {setting})
    info.check_honoured(USUAL)
    with pytest.raises(UnsupportedError) as caught:
        info.check_honoured(replace(USUAL, **{setting: CHANGED[setting]}))
    assert caught.value.param == setting
