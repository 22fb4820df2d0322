"""Servers of others, as the tests of the engines have them."""

from engines.conftest import llama_embedder, llama_server
from engines.test_vllm import vllm

__all__ = ["llama_embedder", "llama_server", "vllm"]
