"""What a model file tells before it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from antiphon.engines.gguf_file import GgufValue
from antiphon.engines.llama_cpp import LlamaCppSettings
from antiphon.engines.llama_cpp.model_file import ModelFile

SMALL = ModelFile(Path("m.gguf"), 0, {"general.architecture": "llama", "llama.attention.head_count": 8})
SETTINGS = LlamaCppSettings(model=SMALL.path, context=4096, batch=512)


def test_attention_scores_that_are_small_are_kept_on_a_processor_and_counted_as_memory() -> None:
    assert SMALL.scores_bytes(SETTINGS) == 4096 * 512 * 8 * 4
    assert not SMALL.flash_attention(SETTINGS)
    long = replace(SETTINGS, context=131_072)
    assert SMALL.flash_attention(long)
    assert SMALL.needs(SETTINGS) - SMALL.needs(long) == SMALL.scores_bytes(SETTINGS), "only stored scores need memory"


def test_a_gpu_and_an_embedding_model_keep_the_engines_own_choice() -> None:
    assert SMALL.flash_attention(replace(SETTINGS, gpu_layers=99))
    assert SMALL.flash_attention(replace(SETTINGS, embeddings=True))


def test_the_widest_layer_counts() -> None:
    layers: dict[str, GgufValue] = {"general.architecture": "llama", "llama.attention.head_count": [4, 16, 8]}
    assert msgspec.structs.replace(SMALL, metadata=layers).scores_bytes(SETTINGS) == 4096 * 512 * 16 * 4
