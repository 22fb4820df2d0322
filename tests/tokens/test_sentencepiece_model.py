"""The file `tokenizer.model` gives the ids that SentencePiece gives, and a `tekken.json` those of its ranks."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from antiphon.catalog.files.text import read_model_text
from antiphon.errors import ModelError, TokenError
from antiphon.tokens import Control, PieceDecoder, decode, sentencepiece_tokenizer, tekken_tokenizer, well_formed
from antiphon.tokens.sentencepiece_model import read_sentencepiece
from kit.strings import TEXT, varied_strings
from kit.vocabularies import EDGES

PLAIN: Mapping[str, Any] = {
    "model_type": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "merges, as Llama 2 has them": PLAIN,
    "merges, no blank first": {**PLAIN, "add_dummy_prefix": False},
    "merges, user-defined": {**PLAIN, "user_defined_symbols": ["<h1>", "\n\n", "def", "<tool>"]},
    "merges of normalised text": {**PLAIN, "normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True},
    "unigram": {**PLAIN, "model_type": "unigram"},
    "unigram without bytes": {"model_type": "unigram", "byte_fallback": False, "user_defined_symbols": ["<tool>"]},
}


@cache
def trained(kind: str) -> bytes:
    out = io.BytesIO()
    lines = [line for line in TEXT.split("\n") if line] + ["abab abc aaa aaaa def f(x):", "the 12 12 34 a b a b"]
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3),
        model_writer=out,
        vocab_size=440 if "without" not in kind else 190,
        hard_vocab_limit=False,
        minloglevel=2,
        **KINDS[kind],
    )
    return out.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_the_librarys(kind: str) -> None:
    data = trained(kind)
    library, tokenizer = SentencePieceProcessor(model_proto=data), sentencepiece_tokenizer(data)
    read = read_sentencepiece(data)
    assert (read.merges, read.plain) == ("merges" in kind, "normalised" not in kind and "without" not in kind)
    controls = set(tokenizer.controls.values())
    for text in (*varied_strings(400), *EDGES):
        expected = library.encode(well_formed(text))
        if controls.isdisjoint(expected):
            assert tokenizer.encode(text) == expected, ascii(text)


@pytest.mark.parametrize("kind", ["merges, user-defined", "unigram without bytes"])
def test_what_is_structure_is_never_found_in_a_text(kind: str) -> None:
    tokenizer = sentencepiece_tokenizer(trained(kind))
    tool = tokenizer.controls[Control("<tool>")]
    assert tool in SentencePieceProcessor(model_proto=trained(kind)).encode("a<tool>b")
    assert tool not in tokenizer.encode("a<tool>b")


def test_a_folder_adds_tokens_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(trained("merges, as Llama 2 has them"))
    size = sentencepiece_tokenizer(trained("merges, as Llama 2 has them")).size
    added = {str(size): {"content": "<|im_start|>", "special": True}, str(size + 2): {"content": "\n\n\n"}}
    settings = {"added_tokens_decoder": added, "eos_token": "</s>", "chat_template": "{{ messages[0].content }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    text = read_model_text(str(tmp_path))
    assert text.template == "{{ messages[0].content }}"
    assert text.end_ids == {2}
    assert text.tokenizer.controls[Control("<|im_start|>")] == size
    ids = text.tokenizer.encode("a<|im_start|>\n\n\nb")
    assert size not in ids
    assert size + 2 in ids
    assert decode(text.tokenizer, ids) == " a<|im_start|>\n\n\n b"


ODD_PIECES = [
    b"\x0a\x02\x08\x01",  # its text is a number
    b"\x0a\x03\x12\x01x",  # its score is a text
    b"\x0a\x09\x11\xff\xff\xff\xff\xff\xff\xff\xff",  # its score has 64 bits
    b"\x0a\x03\x1a\x01x",  # its type is a text
]


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x0a\x7fabc", b"{}", b"\xff" * 12, b"\x0b\x01", *ODD_PIECES])
def test_what_is_no_model_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(data)
    with pytest.raises(ModelError) as raised:
        read_model_text(str(tmp_path))
    assert raised.value.code == "vocabulary_malformed"


def tekken(**changes: Any) -> bytes:
    ranks = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc", b" a", "é".encode()]
    document = {
        "config": {"pattern": r"\S+|\s+", "default_vocab_size": 260 + 22, "default_num_special_tokens": 22},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(token).decode()} for i, token in enumerate(ranks)],
    }
    return json.dumps({**document, **changes}).encode()


def test_a_tekken_file_has_its_special_tokens_before_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_bytes(tekken())
    tokenizer = read_model_text(str(tmp_path)).tokenizer
    assert tokenizer.encode("abcé [INST]a") == [22 + 257, 22 + 259, 22 + 32, *(22 + byte for byte in b"[INST]a")]
    assert [tokenizer.controls[Control(text)] for text in ("<s>", "[INST]", "[TOOL_CONTENT]", "<SPECIAL_21>")] == [
        *(1, 3, 19, 21)
    ]
    named = tekken_tokenizer(tekken(special_tokens=[{"rank": 20, "token_str": "[THINK]", "is_control": True}]))
    assert named.controls[Control("[THINK]")] == 20
    assert PieceDecoder(named).feed([22 + 259, 20]) == ["é", Control("[THINK]")]


@pytest.mark.parametrize("data", [b"", b"{}", tekken(vocab=[{"rank": 0, "token_bytes": "a"}]), tekken(vocab=7)])
def test_what_is_no_tekken_file_is_refused(data: bytes) -> None:
    with pytest.raises(TokenError) as raised:
        tekken_tokenizer(data)
    assert raised.value.code == "vocabulary_malformed"
