"""A cross-encoder of one layer with random weights, as a GGUF file, and the scores that it must give, by numpy."""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

WIDTH, INNER, HEADS, CONTEXT = 32, 64, 4, 64
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("what", "is", "the", "cat", "dog", "invoice", "paid", "machine", "learning", "sun", "rises", "in", "east")
VOCABULARY = (
    *SPECIAL,
    *string.ascii_lowercase,
    ".",
    "?",
    *(f"##{letter}" for letter in string.ascii_lowercase),
    *WORDS,
)
FRAME = 3
"""[CLS] query [SEP] document [SEP]."""


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """The weights by their names in the file. Attention has no mask, as each pair is read alone."""

    weights: dict[str, Array]

    def score(self, query: list[int], document: list[int]) -> float:
        """From 0 to 1, of the ids of two texts without specials."""
        cls, sep = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
        hidden = self._encoded([cls, *query, sep, *document, sep])
        pooled = np.tanh(self._linear("cls", hidden[:1]))
        return float(1 / (1 + np.exp(-self._linear("cls.output", pooled)[0, 0])))

    def _encoded(self, ids: list[int]) -> Array:
        w = self.weights
        x = w["token_embd.weight"][ids] + w["position_embd.weight"][: len(ids)] + w["token_types.weight"][0]
        x = _normalized(x)
        q, k, v = (self._linear(f"blk.0.attn_{name}", x) for name in "qkv")
        attended = np.concatenate([_attention(q[:, at], k[:, at], v[:, at]) for at in _heads()], axis=1)
        x = _normalized(x + self._linear("blk.0.attn_output", attended))
        up = self._linear("blk.0.ffn_up", x)
        inner: Array = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))  # GELU
        return _normalized(x + self._linear("blk.0.ffn_down", inner))

    def _linear(self, name: str, x: Array) -> Array:
        made: Array = x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return made


def _heads() -> list[slice]:
    width = WIDTH // HEADS
    return [slice(i * width, (i + 1) * width) for i in range(HEADS)]


def _attention(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.T / np.sqrt(q.shape[1])
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    made: Array = exp / exp.sum(axis=1, keepdims=True) @ v
    return made


def _normalized(x: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    made: Array = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
    return made


def write_cross_encoder(path: Path, *, head: bool = True, labels: int = 0, template: str = "") -> CrossEncoder:
    """The model, and its file at ``path``; without a ``head``, for so many classes, or with a ``template`` of pairs."""
    weights = _weights(np.random.default_rng(7), head=head)
    writer = gguf.GGUFWriter(path, "bert")
    _describe(writer)
    if labels:
        writer.add_array("bert.classifier.output_labels", [f"label {i}" for i in range(labels)])
    if template:
        writer.add_string("tokenizer.chat_template.rerank", template)
    for name, value in weights.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return CrossEncoder(weights)


def _weights(random: Any, *, head: bool) -> dict[str, Array]:
    def drawn(*shape: int) -> Array:
        made: Array = random.normal(0, 0.5, shape).astype(np.float32)
        return made

    weights = {
        "token_embd.weight": drawn(len(VOCABULARY), WIDTH) * 2,
        "position_embd.weight": drawn(CONTEXT, WIDTH),
        "token_types.weight": drawn(2, WIDTH),
    }
    for name in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        weights |= {f"{name}.weight": np.ones(WIDTH, np.float32), f"{name}.bias": np.zeros(WIDTH, np.float32)}
    squares = [f"blk.0.attn_{name}" for name in ("q", "k", "v", "output")]
    shapes = dict.fromkeys(squares, (WIDTH, WIDTH)) | {"blk.0.ffn_up": (INNER, WIDTH), "blk.0.ffn_down": (WIDTH, INNER)}
    if head:
        shapes |= {"cls": (WIDTH, WIDTH), "cls.output": (1, WIDTH)}
    for name, (rows, columns) in shapes.items():
        weights |= {f"{name}.weight": drawn(rows, columns), f"{name}.bias": drawn(rows)}
    return weights


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece if piece in SPECIAL else _marked(piece) for piece in VOCABULARY])
    kinds = [gguf.TokenType.CONTROL if piece in SPECIAL else gguf.TokenType.NORMAL for piece in VOCABULARY]
    writer.add_token_types(kinds)
    writer.add_token_type_count(2)
    writer.add_unk_token_id(SPECIAL.index("[UNK]"))
    writer.add_pad_token_id(SPECIAL.index("[PAD]"))
    writer.add_mask_token_id(SPECIAL.index("[MASK]"))
    writer.add_sep_token_id(SPECIAL.index("[SEP]"))
    writer.add_eos_token_id(SPECIAL.index("[SEP]"))
    writer.add_bos_token_id(SPECIAL.index("[CLS]"))
    writer.add_uint32("tokenizer.ggml.cls_token_id", SPECIAL.index("[CLS]"))
    # As files of published cross-encoders have it: the end of a text separates it from the next.
    writer.add_add_eos_token(True)
    writer.add_add_sep_token(False)


def _marked(piece: str) -> str:
    return piece.removeprefix("##") if piece.startswith("##") else f"\N{LOWER ONE EIGHTH BLOCK}{piece}"
