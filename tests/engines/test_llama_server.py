"""An external server over the network."""

from __future__ import annotations

import pytest

from antiphon.engines import Sampling
from antiphon.engines.llama_server import LlamaServerEngine
from antiphon.errors import EngineError, OverloadedError, UnsupportedError
from kit.llama_server import FRANCE


async def test_a_wrong_key_is_an_error_that_says_so(llama_server: str) -> None:
    with pytest.raises(EngineError, match="401"):
        await LlamaServerEngine.connect(llama_server, key="open")


async def test_nobody_there_is_an_overload_that_passes(unused_tcp_port: int) -> None:
    with pytest.raises(OverloadedError, match="cannot be reached"):
        await LlamaServerEngine.connect(f"http://127.0.0.1:{unused_tcp_port}")


async def test_a_grammar_is_refused_by_a_server_that_was_not_declared_to_hold_it(llama_server: str) -> None:
    engine = await LlamaServerEngine.connect(llama_server, key="sesame")
    with pytest.raises(UnsupportedError):
        await anext(engine.generate(FRANCE, Sampling(max_tokens=1), grammar='%llguidance {}\nstart: "a"\n'))
    await engine.aclose()
