"""Models of the architectures that people run, with one layer of random weights: they load, and write anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy

from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary_keys

WIDTH, HEADS, INNER = 32, 2, 64
Shape = Sequence[int]

_ATTENTION: Mapping[str, Shape] = {
    f"attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")
}  # fmt: skip
_FUSED: Mapping[str, Shape] = {"attn_qkv.weight": (3 * WIDTH, WIDTH), "attn_output.weight": (WIDTH, WIDTH)}
_GATED: Mapping[str, Shape] = {
    "ffn_gate.weight": (INNER, WIDTH),
    "ffn_up.weight": (INNER, WIDTH),
    "ffn_down.weight": (WIDTH, INNER),
    "ffn_norm.weight": (WIDTH,),
}
_DOUBLE: Mapping[str, Shape] = {**_GATED, "ffn_up.weight": (2 * INNER, WIDTH)}
_LLAMA = {**_ATTENTION, **_GATED}

LAYERS: Mapping[str, Mapping[str, Shape]] = {
    "llama": _LLAMA,
    "baichuan": _LLAMA,
    "internlm2": _LLAMA,
    "qwen2": {**_LLAMA, **{f"attn_{name}.bias": (WIDTH,) for name in ("q", "k", "v")}},
    "qwen": {
        **_FUSED,
        "attn_qkv.bias": (3 * WIDTH,),
        "ffn_gate.weight": (INNER // 2, WIDTH),
        "ffn_up.weight": (INNER // 2, WIDTH),
        "ffn_down.weight": (WIDTH, INNER // 2),
        "ffn_norm.weight": (WIDTH,),
    },
    "chatglm": {**_FUSED, "attn_qkv.bias": (3 * WIDTH,), **{k: v for k, v in _DOUBLE.items() if "gate" not in k}},
    "phi3": {**_FUSED, **{k: v for k, v in _DOUBLE.items() if "gate" not in k}},
    "falcon": {
        **_FUSED,
        "attn_norm.bias": (WIDTH,),
        "ffn_up.weight": (INNER, WIDTH),
        "ffn_down.weight": (WIDTH, INNER),
    },
    "gemma3": {
        **_LLAMA,
        "attn_q_norm.weight": (WIDTH // HEADS,),
        "attn_k_norm.weight": (WIDTH // HEADS,),
        "post_attention_norm.weight": (WIDTH,),
        "post_ffw_norm.weight": (WIDTH,),
    },
}
"""The weights of a layer of each architecture, but for its first norm."""


def write_tiny(path: Path, architecture: str, metadata: Mapping[str, object], *, seed: int = 0) -> None:
    """A model with the vocabulary that ``metadata`` describe."""
    choose = numpy.random.default_rng(seed)
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(WIDTH // HEADS)
    writer.add_value_length(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    write_vocabulary_keys(writer, metadata)
    shapes = {f"blk.0.{name}": shape for name, shape in LAYERS[architecture].items()}
    shapes |= {"blk.0.attn_norm.weight": (WIDTH,), "output_norm.weight": (WIDTH,)}
    shapes |= {"token_embd.weight": (len(tokens), WIDTH), "output.weight": (len(tokens), WIDTH)}
    if architecture == "falcon":
        shapes["output_norm.bias"] = (WIDTH,)
    for name, shape in shapes.items():
        weights = choose.normal(scale=0.3, size=shape) if len(shape) == 2 else numpy.ones(shape)
        writer.add_tensor(name, weights.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
