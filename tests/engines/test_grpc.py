"""The four gRPC protocols over real sockets, with servers made from what was generated from the protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from antiphon.engines.grpc.engine import GrpcEngine
from antiphon.tokens import ByteTokenizer
from kit.engine_contract import EngineContract
from kit.grpc_server import SERVICERS, Script, Servicer, grpc_server
from kit.vllm_server import END


@pytest.fixture(params=SERVICERS, ids=lambda servicer: servicer.name)
def servicer(request: pytest.FixtureRequest) -> Servicer:
    kind: type[Servicer] = request.param
    return kind(Script())


@pytest_asyncio.fixture
async def address(servicer: Servicer) -> AsyncIterator[str]:
    async with grpc_server(servicer) as address:
        yield address


async def connected(address: str, *, grammar: bool | None = True, share_cache: bool = True) -> GrpcEngine:
    return await GrpcEngine.connect(
        address,
        tokenizer=ByteTokenizer(),
        end_ids=frozenset({END}),
        grammar=grammar,
        share_cache=share_cache,
        key="sesame",
    )


@pytest_asyncio.fixture
async def subject(address: str) -> AsyncIterator[GrpcEngine]:
    engine = await connected(address)
    yield engine
    await engine.aclose()


class TestGrpcEngine(EngineContract):
    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return [1, 2, 3]
