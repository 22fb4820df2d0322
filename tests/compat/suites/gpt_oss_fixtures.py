"""A plugin of pytest's: the fixtures that gpt-oss's tests of its server take, which its source does not bring."""

from __future__ import annotations

import time
from itertools import cycle
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpt_oss.responses_api.api_server import create_api_server
from openai_harmony import HarmonyEncodingName, load_harmony_encoding


class Timer:
    """Seconds from a start to a stop."""

    def start(self) -> None:
        self._began = time.perf_counter()

    def stop(self) -> float:
        return time.perf_counter() - self._began


@pytest.fixture
def api_client() -> Any:
    """A client of a server whose model always says the same."""
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    reply = cycle(encoding.encode("<|channel|>final<|message|>An answer.<|return|>", allowed_special="all"))

    def infer(tokens: list[int], temperature: float = 0.0, new_request: bool = False) -> int:
        return next(reply)

    with TestClient(create_api_server(infer_next_token=infer, encoding=encoding)) as client:
        yield client


@pytest.fixture
def sample_request_data() -> dict[str, Any]:
    return {
        "model": "gpt-oss-120b",
        "input": "Hello?",
        "stream": False,
        "reasoning_effort": "low",
        "temperature": 0.0,
        "tools": [],
    }


@pytest.fixture
def performance_timer() -> Timer:
    return Timer()
