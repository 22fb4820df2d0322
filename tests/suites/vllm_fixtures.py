"""Gives vLLM's tests a server of ours in place of `RemoteOpenAIServer`, as a plugin of pytest.

What they import of vLLM is its own source or a stand-in (`compat.suites.stand_ins`). A test that has no fixture of a
server or a client judges vLLM's own code, and is skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import anthropic
import openai
import pytest
import regex  # type: ignore[import-untyped] # noqa: F401 - it is here, so that nothing stands in for it

from compat.suites.stand_ins import VLLM, StandInModule, StandIns
from suites.outcomes import IN_PROCESS

HERE = Path(__file__).parent
THINKS_OR_CALLS = {"--enable-auto-tool-choice", "--reasoning-parser"}
"""Options of servers whose model has to call tools; a scripted one does."""
REACHES = re.compile(r"server|client")


class RemoteOpenAIServer:
    """A server of ours for as long as it is entered, under the model's name or the one that it is to be served by."""

    DUMMY_API_KEY = "token-abc123"

    def __init__(self, model: str, vllm_serve_args: Sequence[str] = (), **options: Any) -> None:
        given = [str(one) for one in vllm_serve_args]
        program = [os.environ["SUITE_PYTHON"], str(HERE / "serving.py"), "0", *_names(model, given)]
        if not THINKS_OR_CALLS & set(given):
            length = given[given.index("--max-model-len") + 1] if "--max-model-len" in given else "2048"
            program[1:] = [str(HERE / "llama_server.py"), "--port", "0", "--host", "127.0.0.1", "--temp", "0"]
            program += ["--alias", ",".join(_names(model, given)), "--parallel", "4", "--json"]
            program += ["--ctx-size", str(4 * int(length)), "--n-predict", "256"]
            key = (options.get("env_dict") or {}).get("VLLM_API_KEY")
            program += ["--api-key", key] if key else []
            program += ["--embedding"] if "pooling" in given else []
        path = os.pathsep.join(str(HERE.parents[1] / name) for name in ("src", "tests"))
        environ = {**os.environ, "PYTHONPATH": path}
        self._process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environ)
        assert self._process.stdout is not None
        announced = next((line for line in self._process.stdout if "http" in line), "")
        self.url_root = announced[announced.index("http") :].partition('"')[0].strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)

    def url_for(self, *parts: str) -> str:
        return "/".join((self.url_root, *parts))

    def get_client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(**self._client(options))

    def get_async_client(self, **options: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(**self._client(options))

    def get_client_anthropic(self, **options: Any) -> anthropic.Anthropic:
        return anthropic.Anthropic(**{**self._client(options), "base_url": self.url_root})

    def get_async_client_anthropic(self, **options: Any) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(**{**self._client(options), "base_url": self.url_root})

    def _client(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"base_url": self.url_for("v1"), "api_key": self.DUMMY_API_KEY, "max_retries": 0, **options}


def _names(model: str, given: Sequence[str]) -> list[str]:
    """What the model is to be called; an adapter's name is another one of it."""
    adapters = [one.partition("=")[0] for one in _values("--lora-modules", given)]
    return [*(_values("--served-model-name", given) or [model]), *adapters]


def _values(option: str, given: Sequence[str]) -> list[str]:
    rest = given[given.index(option) + 1 :] if option in given else []
    return list(takewhile(lambda one: not one.startswith("-"), rest))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    sys.meta_path.insert(0, StandIns(early_config.rootpath, VLLM))
    utils: ModuleType = StandInModule("tests.utils", early_config.rootpath, VLLM)
    vars(utils).update(RemoteOpenAIServer=RemoteOpenAIServer, ROCM_EXTRA_ARGS=[], ROCM_ENV_OVERRIDES={})
    sys.modules["tests.utils"] = utils


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(REACHES.search(name) for name in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.skip(reason=IN_PROCESS))
