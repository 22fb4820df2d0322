"""Images, and a model that is shown them; a projector that gives a small model eyes, whose weights are chance."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter
from PIL import Image

from antiphon.engines import ScriptedEngine
from antiphon.engines.engine import SAMPLING
from antiphon.engines.scripted import Script
from antiphon.formats.template import jinja_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control
from kit.api import CALL, END, START, THINK, UNCALL, UNTHINK

BEGIN, PAD, CLOSE = Control("<|vision_start|>"), Control("<|image_pad|>"), Control("<|vision_end|>")
TOKENIZER = ByteTokenizer([START, END, THINK, UNTHINK, CALL, UNCALL, BEGIN, PAD, CLOSE])
MARK = BEGIN.spelling + PAD.spelling + CLOSE.spelling
_PARTS = (
    "{% macro say(content) %}{% if content is string %}{{ content }}{% else %}{% for part in content %}"
    "{% if part.type == 'image' %}" + MARK + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{% endmacro %}"
)
_BODY = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ SAY }}{% for c in m.tool_calls or [] %}"
    '<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
EVERYWHERE = _PARTS + _BODY.replace("SAY", "say(m.content)")
"""A template with places for images in every message."""
USERS_ALONE = _PARTS + _BODY.replace("SAY", "say(m.content) if m.role == 'user' else m.content")
ENDS = frozenset({TOKENIZER.controls[END]})


def seeing_model(engine: ScriptedEngine, template: str = EVERYWHERE) -> Model:
    format = jinja_format(template, TOKENIZER.controls, replies=QWEN)
    return Model(name="m", engine=engine, tokenizer=TOKENIZER, format=format)


def seeing_engine(script: Script | Sequence[int], **options: Any) -> ScriptedEngine:
    return ScriptedEngine(script, honours=SAMPLING | {"images"}, end_ids=ENDS, **options)


PATCHES = 16
"""Tokens of an image, which the projector makes of it whatever its size is."""
_SIDE, _PATCH, _WIDTH, _LAYERS, _HEADS = 32, 8, 32, 2, 2


def picture(
    kind: str = "PNG",
    size: tuple[int, int] = (64, 48),
    color: tuple[float, ...] = (200, 30, 30),
    *,
    mode: str = "RGB",
    **options: Any,
) -> bytes:
    """The file of an image of one colour. ``mode`` is Pillow's."""
    out = io.BytesIO()
    Image.new(mode, size, color if mode in ("RGB", "RGBA", "CMYK") else 99).save(out, kind, **options)
    return out.getvalue()


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64_of(data)}"


def write_projector(path: Path, embedding: int = 576) -> Path:
    """A projector of llava's kind for a model with embeddings of that size; the same weights each time."""
    chance = np.random.default_rng(0)
    writer = GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    writer.add_uint32("general.file_type", 0)
    numbers = {
        "embedding_length": _WIDTH, "feed_forward_length": 2 * _WIDTH, "block_count": _LAYERS,
        "projection_dim": embedding, "attention.head_count": _HEADS, "image_size": _SIDE, "patch_size": _PATCH,
    }  # fmt: skip
    for name, value in numbers.items():
        writer.add_uint32(f"clip.vision.{name}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    for name in ("image_mean", "image_std"):
        writer.add_array(f"clip.vision.{name}", [0.5, 0.5, 0.5])

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (chance.standard_normal(shape) * 0.2).astype(np.float32))

    def add_with_bias(name: str, *shape: int) -> None:
        add(f"{name}.weight", *shape)
        add(f"{name}.bias", shape[0])

    add("v.class_embd", _WIDTH)
    add("v.patch_embd.weight", _WIDTH, 3, _PATCH, _PATCH)
    add("v.position_embd.weight", PATCHES + 1, _WIDTH)
    for name in ("pre_ln", "post_ln"):
        add_with_bias(f"v.{name}", _WIDTH)
    for i in range(_LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            add_with_bias(f"v.blk.{i}.{name}", _WIDTH, _WIDTH)
        for name in ("ln1", "ln2"):
            add_with_bias(f"v.blk.{i}.{name}", _WIDTH)
        add_with_bias(f"v.blk.{i}.ffn_up", 2 * _WIDTH, _WIDTH)
        add_with_bias(f"v.blk.{i}.ffn_down", _WIDTH, 2 * _WIDTH)
    add_with_bias("mm.0", embedding, _WIDTH)
    add_with_bias("mm.2", embedding, embedding)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
