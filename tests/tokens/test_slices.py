"""Long texts: cut where it changes no id, bounded without being encoded."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.tokens import (
    ByteTokenizer,
    Control,
    SegmentMemo,
    Tokenizer,
    Words,
    encode_pieces,
    engine_tokenizer,
    gguf_tokenizer,
    hf_tokenizer,
    may_fit,
    o200k_harmony,
    well_formed,
)
from antiphon.tokens.bytelevel import LETTER_OF_BYTE
from antiphon.tokens.gguf import TokenType
from antiphon.tokens.hf import cut_of, shrinking
from antiphon.tokens.pretokenizers import PRE_TOKENIZERS
from antiphon.tokens.slices import SLICE, UNCUT, Fewest, between_matches, between_words, in_slices, nowhere
from kit.strings import TEXT, varied_strings

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
AROUND = (
    "it is a b c",
    "x1 <|y|> z's 'll",
    "a<b>c 12-34 5",
    "don't 7's \t q",
    "f(x) == {1: 2};\r\n  }",
    "é,è. 中文a /b",
    "a  b   c\n d",
)
"""Texts that have a place to cut in about every way."""
SPACED = ("two  blanks", " first", "last ", "line\n then", "a\nb", "a\n\nb", "a\n/b", "A!\nB. C", "a\u00a0 b", "")


@pytest.fixture(scope="module")
def metadata(smollm2_path: Path) -> Mapping[str, object]:
    return read_gguf_metadata(smollm2_path)


@pytest.fixture(scope="module")
def few(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """The first tokens of the vocabulary, and their merges."""
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    known = set(tokens[:6_000])
    kept = [merge for merge in merges if known.issuperset([*merge.split(" "), merge.replace(" ", "")])]
    types = metadata["tokenizer.ggml.token_type"]
    assert isinstance(types, list)
    cut = {"tokens": tokens[:6_000], "token_type": types[:6_000], "merges": kept}
    return {**metadata, **{f"tokenizer.ggml.{key}": value for key, value in cut.items()}}


def texts(count: int, seed: int) -> Iterator[str]:
    for i, text in enumerate(varied_strings(count, seed=seed)):
        yield well_formed(AROUND[i % len(AROUND)] + text + AROUND[(i + 3) % len(AROUND)] + text)


def cut_gives_other_ids(tokenizer: Tokenizer, cut: Callable[[str, int], Iterator[str]], *, count: int) -> list[str]:
    """The texts whose ids differ when they are cut wherever they may be. Some must have been cut at all."""
    parts, different = 0, []
    for text in texts(count, seed=5):
        cuts = list(cut(text, 1))
        assert "".join(cuts) == text
        parts += len(cuts)
        if [id for part in cuts for id in tokenizer.encode(part)] != tokenizer.encode(text):
            different.append(text)
    assert parts > 1.2 * count
    return different


@pytest.mark.parametrize("pre", sorted({splits: name for name, splits in PRE_TOKENIZERS.items()}.values()))
def test_neither_a_cut_nor_words_that_are_remembered_change_an_id_of_a_gguf_vocabulary(
    pre: str, few: Mapping[str, object]
) -> None:
    tokenizer, gapless = gguf_tokenizer({**few, "tokenizer.ggml.pre": pre}), PRE_TOKENIZERS[pre].gapless
    assert cut_gives_other_ids(tokenizer, between_matches if gapless else between_words, count=120) == []
    words = Words(tokenizer, capacity=50)
    assert tokenizer.in_words is gapless
    said = [*texts(60, seed=6), *SPACED]
    assert [text for text in said + said if [*words.encode(text)] != tokenizer.encode(text)] == []


@pytest.mark.parametrize("backend", ["tiktoken", "splintr"])
def test_no_cut_changes_an_id_of_o200k(backend: str) -> None:
    assert cut_gives_other_ids(o200k_harmony(backend), between_matches, count=800) == []


def test_a_vocabulary_with_a_text_across_words_is_not_encoded_by_words(few: Mapping[str, object]) -> None:
    tokens = [*few["tokenizer.ggml.tokens"], "two words"]  # type: ignore[misc]
    types = [*few["tokenizer.ggml.token_type"], TokenType.USER_DEFINED]  # type: ignore[misc]
    tokenizer = gguf_tokenizer({**few, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types})
    assert tokenizer.encode("two words") == [len(tokens) - 1]
    assert [*Words(tokenizer).encode("two words")] == [len(tokens) - 1]


def byte_level(*splits: pre_tokenizers.PreTokenizer, nfc: bool = False) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Sequence(list(splits)) if len(splits) > 1 else splits[0]
    library.normalizer = normalizers.NFC() if nfc else None
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet))
    return library


def gpt2() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), nfc=True)


def llama3() -> tokenizers.Tokenizer:
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return byte_level(pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"), spelled)


def smollm() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False))


@pytest.mark.parametrize("made", [gpt2, llama3, smollm])
def test_no_cut_changes_an_id_of_a_tokenizer_json(made: Callable[[], tokenizers.Tokenizer]) -> None:
    text = made().to_str()
    assert cut_of(json.loads(text)) is between_matches
    assert cut_gives_other_ids(hf_tokenizer(text), between_matches, count=500) == []


def test_a_tokenizer_json_is_cut_only_where_its_splits_are_known() -> None:
    own = pre_tokenizers.Split(tokenizers.Regex(r"\w+ \w+"), "isolated")
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert cut_of(json.loads(byte_level(own, spelled).to_str())) is nowhere
    assert cut_of(json.loads(byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)).to_str())) is nowhere
    for token in ("two words", "end;"):
        added = gpt2()
        added.add_tokens([token])
        assert cut_of(json.loads(added.to_str())) is nowhere
    stripping = gpt2()
    stripping.add_tokens([tokenizers.AddedToken("ø", lstrip=True)])
    assert cut_of(json.loads(stripping.to_str())) is nowhere


def test_a_tokenizer_json_tells_whether_bytes_can_be_lost() -> None:
    document = json.loads(llama3().to_str())
    assert shrinking(document) == 1
    assert shrinking(json.loads(gpt2().to_str())) == 4
    assert shrinking({**document, "normalizer": {"type": "Strip"}}) is None
    assert shrinking({**document, "pre_tokenizer": {"type": "Whitespace"}}) is None
    lacking = {**document["model"], "vocab": {"a": 0}}
    assert shrinking({**document, "model": lacking}) is None
    stripping = {"id": 900, "content": "ø", "special": False, "rstrip": True}
    assert shrinking({**document, "added_tokens": [stripping]}) is None


WORDPIECE = {
    "tokenizer.ggml.model": "bert",
    "tokenizer.ggml.tokens": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "▁b", "b", "c", "▁<", "▁1", "2", "▁.", "▁'"],
    "tokenizer.ggml.token_type": [3, 2, 3, 3] + [1] * 9,
}


def test_no_cut_changes_an_id_of_a_wordpiece_vocabulary() -> None:
    assert cut_gives_other_ids(gguf_tokenizer(WORDPIECE), between_matches, count=1_000) == []


@pytest.fixture(scope="module", params=["gguf", "o200k", "hf", "wordpiece", "byte"])
def tokenizer(request: pytest.FixtureRequest, metadata: Mapping[str, object]) -> Tokenizer:
    made: dict[str, Callable[[], Tokenizer]] = {
        "gguf": lambda: gguf_tokenizer(metadata),
        "o200k": o200k_harmony,
        "hf": lambda: hf_tokenizer(llama3().to_str()),
        "wordpiece": lambda: gguf_tokenizer(WORDPIECE),
        "byte": ByteTokenizer,
    }
    return made[request.param]()


LONG = ("1" * 40_000, "aé" * 20_000, " " * 40_000, "\n" * 40_000, "<|im_start|>" * 4_000, "#" * 40_000)


def test_no_text_has_fewer_ids_than_is_told(tokenizer: Tokenizer) -> None:
    in_words = "bert" in tokenizer.name
    # One word of WordPiece may have any length and be one unknown token; no text has such words in thousands.
    for text in ("".join(texts(400, seed=9)), *LONG[2 * in_words : -1 if in_words else None]):
        fewest = tokenizer.fewest(text)
        assert fewest <= len(tokenizer.encode(text))
        assert fewest == 0 or may_fit([text], tokenizer, fewest)
        assert not may_fit([text], tokenizer, fewest - 1) or fewest == 0


def test_up_to_a_limit_ids_are_the_first_of_all(tokenizer: Tokenizer) -> None:
    text = "".join(texts(700, seed=3)) + "b" * SLICE
    ids = tokenizer.encode(text)
    for limit in (0, 1, 100, len(ids) // 2, len(ids) - 1, len(ids), len(ids) + 1):
        assert tokenizer.encode_up_to(text, limit) == ids[: limit + 1]
        assert encode_pieces([text], tokenizer, limit=limit) == ids[: limit + 1]


def test_no_more_is_encoded_than_the_limit_needs() -> None:
    encoded: list[int] = []

    def encode(text: str) -> list[int]:
        encoded.append(len(text))
        return list(text.encode())

    assert len(in_slices(encode, between_matches)("some words " * 100_000, 2 * SLICE)) > 2 * SLICE
    assert len(encoded) == 2
    encoded.clear()
    in_slices(encode, nowhere)("x" * 3 * UNCUT, 10)
    assert encoded == [UNCUT]


def test_a_memo_has_only_texts_that_were_encoded_whole() -> None:
    tokenizer, memo = ByteTokenizer([Control("<a>")]), SegmentMemo()
    assert encode_pieces(["abc", Control("<a>"), "defgh", "ijk"], tokenizer, memo, limit=6) == [
        97,
        98,
        99,
        256,
        100,
        101,
        102,
    ]
    assert memo.segments() == {"abc": (97, 98, 99)}
    assert encode_pieces(["defgh"], tokenizer, memo) == [*b"defgh"]


def test_what_cannot_fit_is_told_in_little_memory(metadata: Mapping[str, object]) -> None:
    tokenizer = gguf_tokenizer(metadata)
    tokenizer.fewest("1" * 3 * SLICE)  # reads the vocabulary once
    text = "1" * 8_000_000
    tracemalloc.start()
    assert not may_fit([text], tokenizer, 4096)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(text)


def test_bytes_that_a_vocabulary_drops_count_as_nothing() -> None:
    letters = [letter for byte, letter in LETTER_OF_BYTE.items() if byte != ord("x")]
    kind = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": []}
    tokenizer = gguf_tokenizer({**kind, "tokenizer.ggml.tokens": letters})
    assert tokenizer.encode("x" * 40_000) == []
    assert tokenizer.fewest("x" * 40_000) == 0
    assert tokenizer.fewest("xy" * 40_000) == 40_000


def test_a_byte_counts_by_the_longest_token_that_has_it() -> None:
    fewest = Fewest(lambda: [b"aaaa", b"b", b"ab", Control("<c>")])
    assert fewest("a" * 40_000) == 10_000
    assert fewest("b" * 40_000) == 20_000
    assert fewest("a" * 20) == 0


def test_a_sentencepiece_vocabulary_with_every_byte_tells_how_few_tokens_a_text_has() -> None:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    kind: dict[str, object] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<s>", *bytes_, "▁▁▁▁", "ab"],
        "tokenizer.ggml.token_type": [3, *[6] * 256, 1, 1],
    }
    tokenizer = engine_tokenizer(kind, lambda text: list(text.encode()))
    assert tokenizer.fewest("▁" * 40_000) == 10_000
    assert tokenizer.fewest("a" * 40_000) == 3_334
    kind["tokenizer.ggml.token_type"] = [3, *[1] * 258]
    assert engine_tokenizer(kind, lambda text: list(text.encode())).fewest("a" * 40_000) == 0
