"""Servers of vLLM and SGLang over gRPC, by their public protocols (extra ``antiphon[grpc]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from antiphon.engines.http import STREAMS, ServerSettings
from antiphon.engines.kind import CHAT, ModelSpec, Task
from antiphon.errors import ConfigError
from antiphon.exports import exports

if TYPE_CHECKING:
    from .engine import GrpcEngine
else:
    __getattr__ = exports(__name__, {"engine": "GrpcEngine"})

__all__ = ["Grpc", "GrpcEngine"]


class Grpc(ServerSettings, frozen=True, kw_only=True, tag="grpc"):
    """A server that runs already, with one model: of vLLM or SGLang, whichever answers at ``url``, as in
    grpc://127.0.0.1:50051; grpcs:// is over TLS."""

    tasks: ClassVar[frozenset[Task]] = CHAT
    schemes: ClassVar[tuple[str, ...]] = ("grpc", "grpcs", "http", "https")

    async def open(self, model: ModelSpec) -> GrpcEngine:
        try:  # An extra, and long to import.
            from .engine import GrpcEngine
        except ImportError as error:
            raise ConfigError(
                "the engine grpc needs an extra that is not installed",
                code="grpc_missing",
                hint="pip install 'antiphon[grpc]'",
            ) from error
        return await GrpcEngine.connect(
            self.url,
            key=await self.key(model),
            tokenizer=model.tokenizer,
            end_ids=model.end_ids,
            grammar=self.grammar,
            streams=model.slots or STREAMS,
            share_cache=self.shares_cache(model),
        )
