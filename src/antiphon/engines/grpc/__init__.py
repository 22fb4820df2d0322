"""Servers of vLLM, SGLang, TensorRT-LLM and MLX over gRPC, by their public protocols (extra ``antiphon[grpc]``)."""

from importlib import import_module
from typing import TYPE_CHECKING

from .kind import Grpc

if TYPE_CHECKING:
    from .engine import GrpcEngine

__all__ = ["Grpc", "GrpcEngine"]


def __getattr__(name: str) -> object:
    """What needs the extra, and takes long to import: the settings are read by every program."""
    if name != "GrpcEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".engine", __name__), name)
