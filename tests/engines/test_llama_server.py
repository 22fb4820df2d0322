"""An external server over the network."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from antiphon.engines import Sampling
from antiphon.engines.llama_server import LlamaServerEngine
from antiphon.errors import EngineError, OverloadedError, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from kit.llama_server import FRANCE


async def test_a_wrong_key_is_an_error_that_says_so(llama_server: str) -> None:
    with pytest.raises(EngineError, match="401"):
        await LlamaServerEngine.connect(llama_server, key="open")


async def test_nobody_there_is_an_overload_that_passes(deaf_port: int) -> None:
    with pytest.raises(OverloadedError, match="cannot be reached"):
        await LlamaServerEngine.connect(f"http://127.0.0.1:{deaf_port}")


async def test_a_grammar_is_refused_by_a_server_that_was_not_declared_to_hold_it(llama_server: str) -> None:
    engine = await LlamaServerEngine.connect(llama_server, key="sesame")
    with pytest.raises(UnsupportedError):
        await anext(engine.generate(FRANCE, Sampling(max_tokens=1), grammar='%llguidance {}\nstart: "a"\n'))
    await engine.aclose()


async def cached(engine: LlamaServerEngine, tenant: Tenant) -> int:
    """How many ids of a prompt the server says it had."""
    async with aclosing(engine.generate(FRANCE * 3, Sampling(max_tokens=1), tenant=tenant)) as steps:
        return max([step.cached_tokens or 0 async for step in steps])


async def test_a_tenant_finds_nothing_that_was_sent_before_or_by_another(llama_server: str) -> None:
    ann, bob = Tenant(owner="ann"), Tenant(owner="bob")
    for tenants in ((ann, bob), (bob, ann)):  # as after a restart of ours
        engine = await LlamaServerEngine.connect(llama_server, key="sesame")
        assert [await cached(engine, tenant) for tenant in tenants] == [0, 0]
        await engine.aclose()


async def test_where_nobody_is_told_apart_or_owners_share_a_prompt_is_found_again(llama_server: str) -> None:
    for tenant, share_cache in ((NOBODY, False), (Tenant(owner="ann"), True)):
        engine = await LlamaServerEngine.connect(llama_server, key="sesame", share_cache=share_cache)
        await cached(engine, tenant)
        assert await cached(engine, tenant) > 0
        await engine.aclose()
