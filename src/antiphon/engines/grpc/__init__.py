"""Servers of vLLM and SGLang over gRPC, by their public protocols (extra ``antiphon[grpc]``)."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

from .kind import Grpc

if TYPE_CHECKING:
    from .engine import GrpcEngine
else:
    __getattr__ = exports(__name__, {"engine": "GrpcEngine"})

__all__ = ["Grpc", "GrpcEngine"]
