"""What a ``tokenizer.json`` says of how texts may be cut, and how few tokens they have: step by step."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from antiphon.tokens import Control, hf_tokenizer
from antiphon.tokens.bytelevel import LETTER_OF_BYTE
from antiphon.tokens.hf import cut_of, shrinking
from antiphon.tokens.slices import between_matches, longest_tokens, nowhere

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
MODEL: dict[str, Any] = {"type": "BPE", "vocab": {letter: id for id, letter in enumerate(LETTER_OF_BYTE.values())}}
FALLBACK: dict[str, Any] = {
    "type": "BPE",
    "byte_fallback": True,
    "vocab": {f"<0x{byte:02X}>": byte for byte in range(256)},
}
BLANKS = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


def document(**parts: Any) -> dict[str, Any]:
    return {"model": MODEL, "pre_tokenizer": BYTE_LEVEL, "normalizer": None, "added_tokens": [], **parts}


def sequence(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", name: list(steps)}


CUTS: dict[str, tuple[dict[str, Any], bool]] = {
    "byte level": (document(), True),
    "byte level with a blank before": (document(pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}), False),
    "byte level that does not split": (document(pre_tokenizer={**BYTE_LEVEL, "use_regex": False}), False),
    "no split": (document(pre_tokenizer=None), False),
    "digits and byte level": (
        document(pre_tokenizer=sequence("pretokenizers", {"type": "Digits"}, BYTE_LEVEL)), True,
    ),
    "digits alone": (document(pre_tokenizer={"type": "Digits"}), False),
    "an unknown step": (document(pre_tokenizer=sequence("pretokenizers", BYTE_LEVEL, {"type": "Whitespace"})), False),
    "composing": (document(normalizer={"type": "NFC"}), True),
    "composing twice": (document(normalizer=sequence("normalizers", {"type": "NFC"}, {"type": "NFC"})), True),
    "lower case": (document(normalizer={"type": "Lowercase"}), False),
    "composing and lower case": (
        document(normalizer=sequence("normalizers", {"type": "NFC"}, {"type": "Lowercase"})), False,
    ),
    "an added word": (document(added_tokens=[{"id": 900, "content": "word"}]), True),
    **{
        f"an added word with {option}": (document(added_tokens=[{"id": 900, "content": "word", option: True}]), False)
        for option in ("lstrip", "rstrip", "single_word")
    },
    "an added word of two": (document(added_tokens=[{"id": 900, "content": "two words"}]), False),
    "a control that strips": (
        document(added_tokens=[{"id": 900, "content": "<|x|>", "special": True, "lstrip": True}]), True,
    ),
    "an added word after another": (
        document(added_tokens=[{"id": 900, "content": "a"}, {"id": 901, "content": "b", "rstrip": True}]), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CUTS)
def test_a_text_is_cut_only_where_every_step_is_known(name: str) -> None:
    described, cuts = CUTS[name]
    assert cut_of(described) is (between_matches if cuts else nowhere)


SHRINKS: dict[str, tuple[dict[str, Any], int | None]] = {
    "byte level": (document(), 1),
    "byte level and composing": (document(normalizer={"type": "NFC"}), 4),
    "byte level and blanks": (document(normalizer=BLANKS), 4),
    "byte level and another replacement": (document(normalizer={**BLANKS, "content": ""}), None),
    "byte level and a replacement of others": (document(normalizer={**BLANKS, "pattern": {"String": "a"}}), None),
    "byte level and a word before": (document(normalizer={"type": "Prepend"}), 4),
    "byte level and stripping": (document(normalizer={"type": "Strip"}), None),
    "composing and stripping": (
        document(normalizer=sequence("normalizers", {"type": "NFC"}, {"type": "Strip"})), None,
    ),
    "bytes of their own": (document(model=FALLBACK, pre_tokenizer=None), 4),
    "bytes of their own, one of them missing": (
        document(model={**FALLBACK, "vocab": dict(list(FALLBACK["vocab"].items())[:-1])}, pre_tokenizer=None), None,
    ),
    "bytes of their own that are not used": (
        document(model={**FALLBACK, "byte_fallback": False}, pre_tokenizer=None), None,
    ),
    "a letter is missing": (document(model={**MODEL, "vocab": dict(list(MODEL["vocab"].items())[:-1])}), None),
    "letters without byte level": (document(pre_tokenizer={"type": "Digits"}), None),
    "another model": (document(model={**MODEL, "type": "WordPiece"}), None),
    "a vocabulary that is none": (document(model={**MODEL, "vocab": [["a", 0.5]]}), None),
    "a split that removes": (
        document(pre_tokenizer=sequence("pretokenizers", {"type": "Split", "behavior": "Removed"}, BYTE_LEVEL)), None,
    ),
    "a split that isolates": (
        document(pre_tokenizer=sequence("pretokenizers", {"type": "Split", "behavior": "Isolated"}, BYTE_LEVEL)), 1,
    ),
    "an unknown split": (document(pre_tokenizer=sequence("pretokenizers", {"type": "Whitespace"}, BYTE_LEVEL)), None),
    "an added word": (document(added_tokens=[{"id": 900, "content": "word", "single_word": True}]), 1),
    "an added word that strips before": (document(added_tokens=[{"id": 900, "content": "w", "lstrip": True}]), None),
    "an added word that strips after": (document(added_tokens=[{"id": 900, "content": "w", "rstrip": True}]), None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHRINKS)
def test_how_few_tokens_a_text_has_is_told_only_where_no_step_loses_bytes(name: str) -> None:
    described, shrinks = SHRINKS[name]
    assert shrinking(described) == shrinks


def test_a_byte_s_longest_token_is_the_longest_and_not_the_last() -> None:
    pieces: list[bytes | Control] = [b"b", b"zz", b"ab", Control("<long control>"), b"abc", b"z"]
    assert longest_tokens(pieces) == {ord("a"): 3, ord("b"): 3, ord("c"): 3, ord("z"): 2}
    assert longest_tokens(pieces, dropped=b"a?") == {
        ord("a"): inf, ord("?"): inf, ord("b"): 3, ord("c"): 3, ord("z"): 2,
    }  # fmt: skip
    every = [bytes([byte]) for byte in range(256)]
    assert longest_tokens([*every, b"ab"]) == {byte: 2 if byte in b"ab" else 1 for byte in range(256)}


def test_a_tokenizer_that_loses_no_bytes_tells_how_few_tokens_a_long_text_has() -> None:
    tokens = tokenizers.Tokenizer(models.BPE(vocab=MODEL["vocab"], merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert hf_tokenizer(tokens.to_str()).fewest("a" * 40_000) == 40_000
    tokens.normalizer = normalizers.Strip()
    assert hf_tokenizer(tokens.to_str()).fewest("a" * 40_000) == 0
