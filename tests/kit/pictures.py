"""Images and what pretends to be one; a projector that gives a small model eyes, whose weights are chance."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Iterator, Sequence
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


# What is none, or is not to be decoded.


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, pixels: bytes | None = None, *, bits: int = 8, color: int = 2) -> bytes:
    """A PNG that says that it is so large, and has the data of ``pixels`` alone."""
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    data = zlib.compress(b"" if pixels is None else pixels)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _said_larger(data: bytes, width: int, height: int) -> bytes:
    """A GIF, a WebP or a JPEG whose header says another size."""
    if data[:3] == b"GIF":
        return data[:6] + struct.pack("<HH", width, height) + data[10:]
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]


def bad_pictures() -> Iterator[tuple[str, bytes]]:
    """Names, and bytes that are no image that is read."""
    files = {kind: picture(kind, (120, 90), (10, 200, 30)) for kind in ("PNG", "JPEG", "GIF", "WEBP")}
    noise = Image.frombytes("RGB", (64, 64), np.random.default_rng(1).bytes(64 * 64 * 3))
    noisy: dict[str, bytes] = {}
    for kind in files:
        out = io.BytesIO()
        noise.save(out, kind)
        noisy[kind] = out.getvalue()
    for kind, data in noisy.items():
        for share in (4, 8, 20, len(data) // 3, len(data) // 2):
            yield f"{kind} cut after {share} bytes", data[:share]
    for kind in ("PNG", "WEBP"):
        yield f"{kind} cut near its end", noisy[kind][:-40]
    png = noisy["PNG"]
    for place in (17, 24, 30, len(png) // 2):
        yield f"PNG with byte {place} changed", png[:place] + bytes((png[place] ^ 0xFF,)) + png[place + 1 :]
    yield "PNG without pixels", png_of(64, 64)
    yield "PNG of 50,000 × 50,000", png_of(50_000, 50_000)
    yield "PNG of 2³¹ − 1 pixels a side", png_of(2**31 - 1, 2**31 - 1)
    yield "PNG of no width", png_of(0, 10)
    yield "PNG that is a line", png_of(60_000, 1, bytes(1 + 60_000 * 3))
    yield "PNG that unpacks to 200 MB", png_of(9_000, 7_500, bytes(7_500 * (1 + 9_000 * 3)))
    yield (
        "PNG with a text that unpacks to 100 MB",
        (png[:33] + _chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(100_000_000))) + png[33:]),
    )
    yield "GIF of 65,535 × 65,535", _said_larger(files["GIF"], 65_535, 65_535)
    yield "JPEG of 65,000 × 65,000", _said_larger(files["JPEG"], 65_000, 65_000)
    yield "JPEG whose size is none", _said_larger(files["JPEG"], 0, 0)
    for kind in ("BMP", "TIFF", "ICO", "PPM", "TGA", "PCX", "SGI", "DDS", "EPS", "PDF", "XBM"):
        mode = "1" if kind == "XBM" else "RGB"
        yield f"a {kind}", picture(kind, (16, 16), mode=mode)
    script = b'<svg xmlns="http://www.w3.org/2000/svg"><script>fetch("http://127.0.0.1")</script></svg>'
    yield from {
        "an SVG with a script": script, "an SVG behind a declaration": b'<?xml version="1.0"?>' + script,
        "HTML": b"<html><img src=x onerror=alert(1)></html>", "JSON": b'{"image": true}',
        "a text": b"a picture of a cat",
        "blanks": b"   \n", "zeros": bytes(1000), "a ZIP": b"PK\x03\x04" + bytes(30), "an ELF": b"\x7fELF" + bytes(60),
        "an MP4": b"\0\0\0\x18ftypmp42" + bytes(40), "a HEIC": b"\0\0\0\x18ftypheic" + bytes(40),
        "an AVIF": b"\0\0\0\x18ftypavif" + bytes(40), "a WAV": b"RIFF\x24\0\0\0WAVEfmt " + bytes(20),
        "a RIFF without WebP": b"RIFF" + bytes(40), "an EPS that runs": b"%!PS\n(/etc/passwd) (r) file\n",
        "MVG": b"push graphic-context\nfill 'url(https://127.0.0.1/x)'\npop graphic-context",
        "a pickle": b"\x80\x04K\x01.",
        "the head of a PNG": b"\x89PNG\r\n\x1a\n", "the head of a JPEG": b"\xff\xd8\xff\xe0",
        "gzip": b"\x1f\x8b\x08" + bytes(20),
    }.items()  # fmt: skip


BAD_SOURCES = (
    "", "data:", "data:image/png;base64,", "data:image/png,%89PNG", "data:image/png;base64,%%%",
    "data:image/png;base64,A",
    "data:image/png;base64,iVBORw0KGgo\n", "data:image/png;base64,äöü", "data:text/plain;base64", "file:///etc/passwd",
    "ftp://127.0.0.1/a.png", "http://127.0.0.1/a.png", "https://example.com/a.png", "//example.com/a.png", "a.png",
)  # fmt: skip
"""Addresses that have no image in them."""
