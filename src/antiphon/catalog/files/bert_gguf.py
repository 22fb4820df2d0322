"""A BERT-like sentence encoder (safetensors, as its authors publish it) → GGUF, once, when it is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from antiphon.errors import ModelError

from .text import MATRYOSHKA

_TYPES = {"F32": "<f4", "F16": "<f2"}
_WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"
_MOST_HEADER = 2**26


def bert_to_gguf(weights: Path) -> Path:
    """The GGUF file, beside ``weights``: mean pooling, matrices at 16 bits.

    ``config.json`` and ``vocab.txt`` must lie there too. Raises `ModelError` for files that are not such a model.
    """
    target = weights.with_suffix(".gguf")
    try:
        config = json.loads((weights.parent / "config.json").read_text("utf-8"))
        vocabulary = (weights.parent / "vocab.txt").read_text("utf-8").rstrip("\n").split("\n")
        writer = gguf.GGUFWriter(target, "bert")
        _describe(writer, config)
        _describe_vocabulary(writer, vocabulary)
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
        for name, tensor in read_safetensors(weights):
            _add(writer, names, name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    except (OSError, KeyError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(f"{weights.name} cannot be converted: {reason}", code="model_not_converted") from error
    return target


def read_safetensors(path: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Every tensor by name, mapped from the file: eight bytes of length, a JSON header of places, the values."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MOST_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(file.read(length))
    values = np.memmap(path, np.uint8, "r", offset=8 + length)
    for name, entry in header.items():
        if name == "__metadata__" or name.endswith("position_ids"):
            continue
        first, last = entry["data_offsets"]
        yield name, values[first:last].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])


def _describe(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    if sizes := config.get("matryoshka_dimensions"):
        writer.add_array(MATRYOSHKA, [int(size) for size in sizes])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _describe_vocabulary(writer: gguf.GGUFWriter, vocabulary: Sequence[str]) -> None:
    """GGUF marks the pieces that begin a word where WordPiece marks those that go on with one."""
    special = [piece.startswith("[") and piece.endswith("]") for piece in vocabulary]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(
        [piece if control else _piece(piece) for piece, control in zip(vocabulary, special, strict=True)]
    )
    writer.add_token_types([gguf.TokenType.CONTROL if control else gguf.TokenType.NORMAL for control in special])
    writer.add_token_type_count(2)
    id_of = {piece: id for id, piece in enumerate(vocabulary)}
    writer.add_unk_token_id(id_of["[UNK]"])
    writer.add_sep_token_id(id_of["[SEP]"])
    writer.add_pad_token_id(id_of["[PAD]"])
    writer.add_mask_token_id(id_of["[MASK]"])
    writer.add_uint32("tokenizer.ggml.cls_token_id", id_of["[CLS]"])
    writer.add_bos_token_id(id_of["[CLS]"])
    writer.add_eos_token_id(id_of["[SEP]"])


def _piece(piece: str) -> str:
    return piece.removeprefix("##") if piece.startswith("##") else _WORD_START + piece


def _add(writer: gguf.GGUFWriter, names: gguf.TensorNameMap, name: str, tensor: npt.NDArray[Any]) -> None:
    if name.startswith("pooler."):  # For classifying; sentences are pooled by their mean.
        return
    found = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if found is None:
        raise ValueError(f"the tensor {name} is none of BERT's")
    halved = tensor.ndim == 2 and found.startswith("blk.")
    writer.add_tensor(found, tensor.astype(np.float16 if halved else np.float32))
