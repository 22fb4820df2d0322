"""A vocabulary that our tables do not cover is encoded by the engine's own call."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon.catalog.files.text import gguf_text, read_model_text
from antiphon.engines.llama_cpp.vocabulary import EngineVocabulary
from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary
from antiphon.errors import ModelError
from antiphon.tokens import Control, PieceDecoder, decode
from kit.strings import varied_strings
from kit.token_engine import engine_tokenizer_of
from kit.vocabularies import byte_level, sentencepiece

LEARNT = byte_level("superbpe", merges=600)
KINDS: dict[str, Mapping[str, object]] = {
    "superbpe": LEARNT,
    "afmoe": {**LEARNT, "tokenizer.ggml.pre": "afmoe"},
    "tiny_aya": {**LEARNT, "tokenizer.ggml.pre": "tiny_aya"},
    "merges that make no token": {**LEARNT, "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.merges": ["a b", "ab zz"]},
    "hybriddna": {**LEARNT, "tokenizer.ggml.model": "hybriddna", "tokenizer.ggml.pre": "qwen2"},
    "t5, with bytes": {**sentencepiece(), "tokenizer.ggml.model": "t5"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_the_engines(kind: str, tmp_path: Path) -> None:
    write_vocabulary(tmp_path / "model.gguf", KINDS[kind])
    text = read_model_text(str(tmp_path / "model.gguf"))
    assert text.by_engine
    with engine_tokenizer_of(tmp_path / "model.gguf") as engine:
        assert engine.different({one: text.tokenizer.encode(one) for one in varied_strings(200)}) == []
    assert decode(text.tokenizer, text.tokenizer.encode("def f(x): 12345 привет")) == "def f(x): 12345 привет"


def test_text_never_becomes_a_control() -> None:
    tokens, types = LEARNT["tokenizer.ggml.tokens"], LEARNT["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    added = {"tokenizer.ggml.tokens": [*tokens, "<reason>"], "tokenizer.ggml.token_type": [*types, 4]}
    tokenizer = gguf_text({**LEARNT, **added}).tokenizer  # type: ignore[dict-item]  # of one kind for each key
    ids = tokenizer.encode("a<reason>b</s>")
    assert tokenizer.controls[Control("<reason>")] not in ids
    assert "".join(map(str, PieceDecoder(tokenizer).feed(ids))) == "a<reason>b</s>"


def test_an_engine_that_ended_is_started_again_and_several_threads_take_turns() -> None:
    encode = EngineVocabulary(LEARNT)  # type: ignore[arg-type]  # of one kind for each key
    before = encode("The quick brown fox")
    os.kill(encode.pid, signal.SIGKILL)
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(encode("The quick brown fox"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [before] * 8


def test_what_the_engine_does_not_know_either_is_an_error_with_its_reason(tmp_path: Path) -> None:
    write_vocabulary(tmp_path / "model.gguf", {**LEARNT, "tokenizer.ggml.pre": "nosuch"})
    with pytest.raises(ModelError, match="unknown pre-tokenizer type: 'nosuch'") as raised:
        read_model_text(str(tmp_path / "model.gguf"))
    assert raised.value.code == "vocabulary_not_covered"
