"""Files that are no image that is read, by the word that says so, and odd ones that are; addresses without an image."""

from __future__ import annotations

import base64
import gzip
import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image

from kit.pictures import picture

PNG, JPEG, GIF, WEBP = (picture(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP"))
SIGNATURE = b"\x89PNG\r\n\x1a\n"
_100_MB = zlib.compress(bytes(100_000_000))
_SCRIPT = b'<svg xmlns="http://www.w3.org/2000/svg"><script>fetch("http://127.0.0.1")</script></svg>'


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, pixels: bytes = b"", *, bits: int = 8, color: int = 2, interlace: int = 0) -> bytes:
    """A PNG that says that it is so large, and has the data of ``pixels`` alone."""
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlace)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels)) + _chunk(b"IEND", b"")


def _with(*chunks: bytes) -> bytes:
    """A PNG with more chunks behind its header."""
    return PNG[:33] + b"".join(chunks) + PNG[33:]


def _gif_of(screen: tuple[int, int], frame: tuple[int, int], code: int = 8) -> bytes:
    at = GIF.index(b",")
    sizes = struct.pack("<HH", *screen), struct.pack("<HH", *frame)
    return GIF[:6] + sizes[0] + GIF[10 : at + 5] + sizes[1] + GIF[at + 9 : at + 10] + bytes([code]) + GIF[at + 11 :]


def _webp_of(flags: int, side: int, *more: bytes) -> bytes:
    """A WebP of a canvas with that many pixels a side."""
    last = struct.pack("<I", side - 1)[:3]
    body = b"WEBPVP8X\x0a\0\0\0" + bytes([flags, 0, 0, 0]) + last + last + b"".join(more)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _jpeg_sized(width: int, height: int) -> bytes:
    at = JPEG.index(b"\xff\xc0") + 5
    return JPEG[:at] + struct.pack(">HH", height, width) + JPEG[at + 4 :]


def _jpeg_without(first: bytes, until: bytes) -> bytes:
    return JPEG[: JPEG.index(first)] + JPEG[JPEG.index(until) :]


def _jpeg_with(marker: bytes, body: bytes) -> bytes:
    return JPEG[:2] + marker + struct.pack(">H", len(body) + 2) + body + JPEG[2:]


def _exif(tag: int, kind: int, count: int, value: int, then: int = 0) -> bytes:
    """A JPEG with one entry of EXIF, and where the next directory is to be."""
    entry = struct.pack("<HHHIII", 1, tag, kind, count, value, then)
    return _jpeg_with(b"\xff\xe1", b"Exif\0\0II*\0\x08\0\0\0" + entry)


def _jpeg_of_scans(count: int, side: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again: each is decoded for all its pixels."""
    whole = picture("JPEG", (side, side), mode="L", progressive=True)
    last = whole[whole.rindex(b"\xff\xda") : -2]
    return whole[:-2] + last * count + b"\xff\xd9"


def _noise(kind: str) -> bytes:
    """A file that no compression makes small."""
    out = io.BytesIO()
    Image.frombytes("RGB", (64, 64), np.random.default_rng(1).bytes(64 * 64 * 3)).save(out, kind)
    return out.getvalue()


def of_another_kind() -> Mapping[str, bytes]:
    """Files of other kinds, and texts."""
    others = ("BMP", "TIFF", "ICO", "PPM", "TGA", "PCX", "SGI", "DDS", "EPS", "PDF", "JPEG2000", "AVIF")
    return {
        **{f"a {kind}": picture(kind, (16, 16)) for kind in others},
        "an XBM": picture("XBM", (16, 16), mode="1"),
        "an SVG with a script": _SCRIPT, "an SVG behind a declaration": b'<?xml version="1.0"?>' + _SCRIPT,
        "an SVG in UTF-16": _SCRIPT.decode().encode("utf-16"), "an SVG in gzip": gzip.compress(_SCRIPT),
        "HTML": b"<html><img src=x onerror=alert(1)></html>", "JSON": b'{"image": true}',
        "a text": b"a picture of a cat", "blanks": b"   \n", "zeros": bytes(1000),
        "a ZIP": b"PK\x03\x04" + bytes(30), "an ELF": b"\x7fELF" + bytes(60), "a pickle": b"\x80\x04K\x01.",
        "an MP4": b"\0\0\0\x18ftypmp42" + bytes(40), "a HEIC": b"\0\0\0\x18ftypheic" + bytes(40),
        "a WAV": b"RIFF\x24\0\0\0WAVEfmt " + bytes(20), "a RIFF without WebP": b"RIFF" + bytes(40),
        "an EPS that runs": b"%!PS\n(/etc/passwd) (r) file\n", "a PSD": b"8BPS\0\1" + bytes(40),
        "MVG": b"push graphic-context\nfill 'url(https://127.0.0.1/x)'\npop graphic-context",
        "a JPEG XL": b"\xff\x0a" + bytes(30), "a QOI": b"qoif\0\0\0\x08\0\0\0\x08\3\0" + bytes(30),
        "a MNG": b"\x8aMNG\r\n\x1a\n" + PNG[8:],
        "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        # Polyglots, and what became of an image on its way.
        "a PDF that goes on as a PNG": b"%PDF-1.7\n" + PNG, "HTML that goes on as a JPEG": b"<script></script>" + JPEG,
        "a PNG behind a blank": b"\n" + PNG, "a PNG in base64 twice": base64.b64encode(PNG),
        "a PNG in hexadecimal": PNG.hex().encode(), "a PNG with the newlines of Unix": PNG.replace(b"\r\n", b"\n"),
        "a PNG as Latin-1 in UTF-8": PNG.decode("latin-1").encode(),
        "a PNG decoded with replacements": PNG.decode(errors="replace").encode(),
        # Beginnings.
        "the head of a PNG": SIGNATURE, "the head of a JPEG": b"\xff\xd8\xff\xe0", "4 bytes of a GIF": GIF[:4],
        "20 bytes of a JPEG": JPEG[:20], "8 bytes of a WebP": WEBP[:8],
        # Headers that no decoder of the kind would take.
        "a PNG of no width": png_of(0, 10), "a PNG of 3 bits": png_of(8, 8, bits=3, color=0),
        "a PNG of a colour that there is not": png_of(8, 8, color=5), "a PNG without a header": PNG[:8] + PNG[33:],
        "a PNG with a broken header": PNG[:17] + b"\xff" + PNG[18:],
        "a PNG with a frame beyond itself": _with(
            _chunk(b"acTL", struct.pack(">II", 1, 0)),
            _chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 9999, 9999, 0, 0, 1, 1, 0, 0)),
        ),
        "a GIF without a picture": GIF[: GIF.index(b",")] + b";", "a JPEG of no size": _jpeg_sized(0, 0),
        "a JPEG of 12 bits": JPEG.replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c"),
        "a JPEG of 255 components": JPEG.replace(b"\0\x30\0\x40\3", b"\0\x30\0\x40\xff"),
    }  # fmt: skip


def damaged() -> Mapping[str, bytes]:
    """Files that begin as an image does, and do not go on so."""
    noise = {kind: _noise(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP")}
    png, half = noise["PNG"], len(noise["PNG"]) // 2
    return {
        **{f"half a {kind}": data[: len(data) // 2] for kind, data in noise.items()},
        **{f"a {kind} cut near its end": noise[kind][:-40] for kind in ("PNG", "WEBP")},
        "a PNG with a byte changed": png[:half] + bytes([png[half] ^ 0xFF]) + png[half + 1 :],
        "a PNG without pixels": png_of(64, 64), "a PNG with too short a header": PNG[:8] + _chunk(b"IHDR", bytes(4)),
        "a PNG whose pixels are not packed": PNG[:33] + _chunk(b"IDAT", b"nothing") + _chunk(b"IEND", b""),
        "a PNG with a filter that there is not": png_of(8, 8, (b"\7" + bytes(24)) * 8),
        "a PNG of an interlace that there is not": png_of(8, 8, bytes(8 * 25), interlace=7),
        "a PNG with a text that unpacks to 100 MB": _with(_chunk(b"zTXt", b"a\0\0" + _100_MB)),
        "a PNG with one of many languages that does": _with(_chunk(b"iTXt", b"a\0\1\0\0\0" + _100_MB)),
        "a PNG with a profile of colours that does": _with(_chunk(b"iCCP", b"a\0\0" + _100_MB)),
        "a PNG with 70 texts of 1 MB": _with(*[_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**20)))] * 70),
        "a JPEG without its tables": _jpeg_without(b"\xff\xdb", b"\xff\xc0"),
        "a JPEG without a scan": JPEG[: JPEG.index(b"\xff\xda")] + b"\xff\xd9",
        "a JPEG that says that it is lossless": JPEG.replace(b"\xff\xc0", b"\xff\xc3"),
        "a GIF with codes of 200 bits": _gif_of((64, 48), (64, 48), code=200),
        "a WebP of 16 million pixels a side": _webp_of(2, 2**24, b"ANIM\6\0\0\0" + bytes(6)),
        "a WebP without a picture": _webp_of(0, 64), "a WebP of no size": b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0",
    }  # fmt: skip


def too_large() -> Mapping[str, bytes]:
    """Images of more pixels than are read, or that say so."""
    frame = b"ANMF" + struct.pack("<I", 24 + len(WEBP) - 20) + bytes(6) + b"\x3f\0\0\x2f\0\0\x0a\0\0\0" + WEBP[12:]
    return {
        "a PNG of 50,000 × 50,000": png_of(50_000, 50_000), "a PNG of 2³¹ − 1 a side": png_of(2**31 - 1, 2**31 - 1),
        "a PNG that is a line": png_of(60_000, 1, bytes(1 + 60_000 * 3)),
        "a PNG that unpacks to 200 MB": png_of(9_000, 7_500, bytes(7_500 * (1 + 9_000 * 3))),
        "a PNG with a second header": _with(png_of(50_000, 50_000)[8:33]),
        "a GIF of 65,535 × 65,535": _gif_of((65_535, 65_535), (64, 48)),
        "a GIF with a frame of 65,535 × 65,535": _gif_of((1, 1), (65_535, 65_535)),
        "a JPEG of 65,000 × 65,000": _jpeg_sized(65_000, 65_000),
        "a WebP of 8,000 × 8,000": _webp_of(2, 8_000, b"ANIM\6\0\0\0" + bytes(6), frame),
    }  # fmt: skip


def bad_pictures() -> Iterator[tuple[str, str, bytes]]:
    """Names, words of the error, and bytes that are no image that is read."""
    for words, files in (
        ("none of PNG, JPEG, WebP and GIF", of_another_kind()), ("damaged", damaged()), ("pixels; 50", too_large()),
        ("takes more", {"a JPEG of 3,000 scans": _jpeg_of_scans(3_000, 2_000)}),
    ):  # fmt: skip
        for name, data in files.items():
            yield name, words, data


def odd_pictures() -> Mapping[str, bytes]:
    """Files that are images of red, 64 × 48, with more in them than a decoder needs."""
    frames = [Image.new("RGB", (64, 48), color) for color in ("#c81e1e", "#0000ff", "#00ff00")]
    several: dict[str, bytes] = {}
    for kind in ("GIF", "PNG", "WEBP", "MPO"):
        out = io.BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:])
        several[f"a {kind} of three pictures"] = out.getvalue()
    profile: dict[str, Any] = {"icc_profile": b"none" * 50_000}
    return {
        **several,
        "a JPEG with a profile of colours that is none": picture("JPEG", **profile),
        "a PNG with a profile of colours that is none": picture(**profile),
        "a JPEG with a piece of a profile": _jpeg_with(b"\xff\xe2", b"ICC_PROFILE\0\x01\xff" + bytes(10)),
        "a JPEG with EXIF that is its own next": _exif(0x8769, 4, 1, 8, then=8),
        "a JPEG with EXIF of 2 GB": _exif(0x010E, 2, 2**31, 26), "a JPEG on no side": _exif(0x0112, 3, 1, 99),
        "a JPEG with a text for a side": _exif(0x0112, 2, 4, 0x41414141),
        "a JPEG with EXIF that is none": _jpeg_with(b"\xff\xe1", b"Exif\0\0" + b"\xff" * 100),
        "a PNG with a text of 5 MB": _with(_chunk(b"tEXt", b"a\0" + bytes(5_000_000))),
        "a PNG that says it has 2³¹ pictures": _with(_chunk(b"acTL", struct.pack(">II", 2**31, 0))),
        "a PNG that goes on as a ZIP": PNG + b"PK\x03\x04" + bytes(50),
        "a JPEG that goes on as HTML": JPEG + b"<script></script>",
        "a GIF with a comment of 5 MB": GIF.replace(b",", b"!\xfe" + (b"\xff" + b"x" * 255) * 20_000 + b"\0,", 1),
    }  # fmt: skip


BAD_SOURCES = (
    "", "data:", "data:image/png;base64,", "data:image/png,%89PNG", "data:image/png;base64,%%%",
    "data:image/png;base64,A",
    "data:image/png;base64,iVBORw0KGgo\n", "data:image/png;base64,äöü", "data:text/plain;base64", "file:///etc/passwd",
    "ftp://127.0.0.1/a.png", "http://127.0.0.1/a.png", "https://example.com/a.png", "//example.com/a.png", "a.png",
)  # fmt: skip
"""Addresses that have no image in them."""
