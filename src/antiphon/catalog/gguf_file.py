"""The reader of GGUF metadata lives with the engines; the catalog reads vocabularies and templates through it."""

from antiphon.engines.gguf_file import GgufValue, read_gguf_metadata

__all__ = ["GgufValue", "read_gguf_metadata"]
