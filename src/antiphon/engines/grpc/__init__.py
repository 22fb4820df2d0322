"""Servers of vLLM, SGLang, TensorRT-LLM and MLX over gRPC, by their public protocols (extra ``antiphon[grpc]``)."""

from .kind import Grpc

__all__ = ["Grpc"]
