"""A GGUF file with a vocabulary, and a model of one small empty layer around it: enough for the engine to load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy

_WIDTH = 32
_LISTS = {"scores": gguf.GGUFValueType.FLOAT32, "token_type": gguf.GGUFValueType.INT32}
_SQUARES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def write_vocabulary(path: Path, metadata: Mapping[str, object]) -> None:
    """Writes the keys of ``metadata`` that describe a vocabulary. The model says nothing of sense.

    Raises `TypeError` for a value that no vocabulary has.
    """
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_WIDTH)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH)
    name = metadata.get("general.name")
    if isinstance(name, str):
        writer.add_name(name)
    write_vocabulary_keys(writer, metadata)
    tokens = metadata["tokenizer.ggml.tokens"]
    count = len(tokens) if isinstance(tokens, list) else 0
    writer.add_tensor("token_embd.weight", numpy.zeros((count, _WIDTH), dtype=numpy.float16))
    writer.add_tensor("output_norm.weight", numpy.ones(_WIDTH, dtype=numpy.float32))
    for tensor in _SQUARES:
        writer.add_tensor(f"blk.0.{tensor}.weight", numpy.zeros((_WIDTH, _WIDTH), dtype=numpy.float16))
    for tensor in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{tensor}.weight", numpy.ones(_WIDTH, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_vocabulary_keys(writer: gguf.GGUFWriter, metadata: Mapping[str, object]) -> None:
    """Adds the keys that describe a vocabulary, with the types that llama.cpp reads."""
    for key, value in metadata.items():
        if key.startswith("tokenizer."):
            _write(writer, key, value)


def _write(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    """Writes one key, as the type that llama.cpp reads."""
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list() if key.endswith("precompiled_charsmap"):
            writer.add_array(key, bytes(byte & 255 for byte in value))
        case list() if value:
            kind = _LISTS.get(key.rpartition(".")[2])
            writer.add_key_value(key, value, gguf.GGUFValueType.ARRAY, sub_type=kind)
        case list():
            pass
        case _:
            raise TypeError(key)
