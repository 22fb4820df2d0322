"""The models that LMDeploy's templates name: vocabulary, architecture, template and engine together make a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy
import pytest

from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary_keys
from antiphon.library.opening import open_model
from antiphon.tokens import Control, encode_pieces
from kit.token_engine import engine_tokenizer_of
from kit.vocabularies import byte_level, sentencepiece, with_controls

# Models of the architectures that people run, with one layer of random weights: they load, and write anything.

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


SPM = sentencepiece(add_bos_token=True)
CHATML = with_controls(SPM, "<|im_start|>", "<|im_end|>")
MODELS: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "InternLM": ("llama", with_controls(SPM, "<|User|>", "<|Bot|>", "<eoh>", "<eoa>"), "internlm-chat"),
    "InternLM 2": ("internlm2", CHATML, "internlm2"),
    "Llama 2": ("llama", SPM, "llama2"),
    "CodeLlama": ("llama", sentencepiece(pieces=["▁<PRE>", "▁<SUF>", "▁<MID>"], add_bos_token=True), "codellama"),
    "Vicuna": ("llama", SPM, "vicuna"),
    "Yi": ("llama", with_controls(sentencepiece(add_bos_token=False), "<|im_start|>", "<|im_end|>"), "yi"),
    "Mistral": ("llama", SPM, "mistral"),
    "Baichuan 2": ("baichuan", with_controls(SPM, "<reserved_106>", "<reserved_107>"), "baichuan2"),
    "Qwen": ("qwen", with_controls(byte_level("qwen2", merges=99), "<|im_start|>", "<|im_end|>"), "qwen"),
    "Qwen 2.5": ("qwen2", with_controls(byte_level("qwen2", merges=99), "<|im_start|>", "<|im_end|>"), "qwen2d5"),
    "ChatGLM 2": ("chatglm", sentencepiece(), "chatglm2-6b"),
    "ChatGLM 3": ("chatglm", with_controls(SPM, "<|system|>", "<|user|>", "<|assistant|>"), "chatglm3"),
    "GLM 4": (
        "chatglm",
        with_controls(byte_level("glm4", merges=99), "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
        "glm4",
    ),
    "Falcon": ("falcon", byte_level("falcon", merges=99), "falcon"),
    "Gemma 3": (
        "gemma3",
        with_controls(sentencepiece(add_space_prefix=False), "<start_of_turn>", "<end_of_turn>"),
        "gemma",
    ),
    "Phi-3": ("phi3", with_controls(SPM, "<|user|>", "<|assistant|>", "<|end|>"), "phi-3"),
    "DeepSeek": ("llama", with_controls(byte_level("deepseek-llm", merges=99), "<｜end▁of▁sentence｜>"), "deepseek"),
    "Llama 3": (
        "llama",
        with_controls(byte_level("llama-bpe", merges=99), "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "llama3",
    ),
}
ASKED = "Wer ist <s>, was 你好 naïve?\n  </s>"


@pytest.mark.parametrize("name", MODELS)
def test_the_whole_road_runs(name: str, tmp_path: Path) -> None:
    architecture, metadata, template = MODELS[name]
    path = tmp_path / "tiny.gguf"
    write_tiny(path, architecture, metadata)
    with open_model(path, format=template, context=512, slots=1, threads=1) as model:
        prompt = model.render(ASKED)
        reply = model.chat(ASKED, max_tokens=6, seed=1)
    assert prompt.ids is not None
    assert reply.usage.prompt_tokens == len(prompt.ids)
    assert reply.usage.completion_tokens
    controls = {piece for piece in prompt.pieces if isinstance(piece, Control)}
    assert controls <= {Control(token) for token in metadata["tokenizer.ggml.tokens"]}  # type: ignore[attr-defined]
    assert [piece for piece in prompt.pieces if isinstance(piece, str) and ASKED in piece], "a text of the user's"
    with engine_tokenizer_of(path) as engine:
        ids = [
            id
            for piece in prompt.pieces
            for id in ([model.tokenizer.controls[piece]] if isinstance(piece, Control) else engine.tokenize(piece))
        ]
    assert list(prompt.ids) == ids == encode_pieces(prompt.pieces, model.tokenizer)
