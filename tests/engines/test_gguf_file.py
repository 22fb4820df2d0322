"""The header of a GGUF file is read whole, or refused with the place where it fails."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from antiphon.engines.gguf_file import GgufFile, read_gguf, read_gguf_metadata
from antiphon.errors import ModelError, Position


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def entry(key: str, type: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", type) + value


def header(*entries: bytes, version: int = 3, count: int | None = None) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(entries) if count is None else count) + b"".join(entries)


WHOLE = header(
    entry("name", 8, string("Möbius")),
    entry("layers", 4, struct.pack("<I", 30)),
    entry("scale", 6, struct.pack("<f", 0.5)),
    entry("bos", 7, b"\1"),
    entry("big", 10, struct.pack("<Q", 2**63)),
    entry("tokens", 9, struct.pack("<IQ", 8, 2) + string("a") + string("Ġb")),
    entry("types", 9, struct.pack("<IQ", 5, 3) + struct.pack("<3i", 1, -2, 3)),
    entry("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 0, 2) + b"\x07\x08"),
)


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(WHOLE + b"tensors")
    assert read_gguf_metadata(tmp_path / "m.gguf") == {
        "name": "Möbius",
        "layers": 30,
        "scale": 0.5,
        "bos": True,
        "big": 2**63,
        "tokens": ["a", "Ġb"],
        "types": [1, -2, 3],
        "nested": [[7, 8]],
    }


def test_a_file_cut_anywhere_in_its_header_is_refused(tmp_path: Path) -> None:
    for length in range(len(WHOLE)):
        (tmp_path / "m.gguf").write_bytes(WHOLE[:length])
        with pytest.raises(ModelError) as raised:
            read_gguf_metadata(tmp_path / "m.gguf")
        assert raised.value.code == ("not_gguf" if length < 4 else "gguf_truncated")


def test_a_string_that_is_cut_is_refused_with_its_place(tmp_path: Path) -> None:
    whole = header(entry("k", 9, struct.pack("<IQ", 8, 2) + string("a") + string("b" * 9)))
    length, text = len(whole) - 17, len(whole) - 9
    for cut, offset in ((text - 1, length), (text, text), (len(whole) - 1, text)):
        (tmp_path / "m.gguf").write_bytes(whole[:cut])
        with pytest.raises(ModelError) as raised:
            read_gguf_metadata(tmp_path / "m.gguf")
        assert raised.value.code == "gguf_truncated"
        assert raised.value.position == Position(offset=offset)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "not_gguf"),
        (b"PK\3\4" + b"\0" * 100, "not_gguf"),
        (header(version=1), "gguf_malformed"),
        (header(count=2**64 - 1), "gguf_truncated"),
        (header(entry("k", 8, struct.pack("<Q", 2**63))), "gguf_truncated"),
        (header(entry("k", 9, struct.pack("<IQ", 8, 2**60))), "gguf_truncated"),
        (header(entry("k", 9, struct.pack("<IQ", 0, 2**62))), "gguf_truncated"),
        (header(entry("k", 13, b"")), "gguf_malformed"),
        (header(entry("k", 9, struct.pack("<IQ", 9, 1) * 1000 + b"\0" * 64)), "gguf_malformed"),
    ],
)
def test_what_is_not_a_gguf_header_is_refused_at_once(content: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ModelError) as raised:
        read_gguf_metadata(tmp_path / "m.gguf")
    assert raised.value.code == code


def test_a_missing_file_and_a_folder_are_model_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ModelError) as raised:
            read_gguf_metadata(path)
        assert raised.value.code == "model_unreadable"


def test_bytes_that_are_not_utf8_do_not_make_a_model_unusable(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(header(entry("k", 8, struct.pack("<Q", 2) + b"\xffa")))
    assert read_gguf_metadata(tmp_path / "m.gguf") == {"k": "\ufffda"}


def test_the_default_model_says_what_it_is(smollm2_path: Path) -> None:
    metadata = read_gguf_metadata(smollm2_path)
    assert metadata["tokenizer.ggml.pre"] == "smollm"
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    assert len(tokens) == 49_152


def tensor(name: str, *dimensions: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, 0, 0)


@pytest.mark.parametrize(
    ("tensors", "parameters"),
    [
        ([], 0),
        ([tensor("a", 3, 4), tensor("b", 5)], 17),
        ([tensor("a", 3, 4)[:-1]], None),
        ([tensor("a", 2**62, 8)], None),
        ([tensor("a", *[1] * 9)], None),
    ],
)
def test_the_numbers_of_all_tensors_are_counted(tmp_path: Path, tensors: list[bytes], parameters: int | None) -> None:
    file = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1) + entry("bos", 7, b"\1") + b"".join(tensors)
    (tmp_path / "m.gguf").write_bytes(file)
    assert read_gguf(tmp_path / "m.gguf") == GgufFile({"bos": True}, parameters)
