"""Servers of vLLM, SGLang, TensorRT-LLM and MLX over gRPC, by the protocols that they share (extra ``antiphon[grpc]``)."""

from .kind import Grpc

__all__ = ["Grpc"]
