"""Servers of others, as the tests of the engines have them."""

from kit.llama_server import llama_embedder, llama_server
from kit.sglang_server import sglang
from kit.vllm_server import vllm

__all__ = ["llama_embedder", "llama_server", "sglang", "vllm"]
