"""The models that LMDeploy's templates name: vocabulary, architecture, template and engine together make a reply."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon.library.opening import open_model
from antiphon.tokens import Control, encode_pieces
from kit.tiny_models import write_tiny
from kit.token_engine import engine_tokenizer_of
from kit.vocabularies import byte_level, sentencepiece, with_controls

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
