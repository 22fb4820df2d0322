"""A SentencePiece vocabulary gives the ids that the engine itself gives, and no text of a user's a control."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary
from antiphon.errors import TokenError
from antiphon.tokens import Control, PieceDecoder, SampledText, SegmentMemo, encode_pieces, gguf_tokenizer
from kit.strings import varied_strings
from kit.token_engine import engine_tokenizer_of
from kit.vocabularies import EDGES, character_pairs, sentencepiece

KINDS: dict[str, Mapping[str, object]] = {
    "a blank first": sentencepiece(),
    "as it stands": sentencepiece(add_space_prefix=False),
    "user-defined texts": sentencepiece(added={"\n\n\n": 4, "▁▁▁": 4, "<h1>": 4, "  ": 4, "  \n": 4, "def": 4}),
    "blanks inside pieces": sentencepiece(pieces=["a▁", "a▁b", ">▁", "a▁▁b", "1▁=", "▁▁a▁"]),
    "pairs of characters": character_pairs(),
    "pairs of characters by the pre-tokenizer": {
        **character_pairs(merges=300),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "granite-embed-multi-311m",
    },
    "a control that merges make": sentencepiece(pieces=["<s", "</", "</s", "x</s>"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_the_engines_own(kind: str, tmp_path: Path) -> None:
    write_vocabulary(tmp_path / "model.gguf", KINDS[kind])
    tokenizer = gguf_tokenizer(KINDS[kind])
    controls = set(tokenizer.controls.values())
    with engine_tokenizer_of(tmp_path / "model.gguf") as engine:
        different = engine.different({text: tokenizer.encode(text) for text in (*varied_strings(1_500), *EDGES)})
        assert [text for text in different if controls.isdisjoint(engine.tokenize(text))] == []


def test_text_never_becomes_a_control_though_merges_would_make_it(tmp_path: Path) -> None:
    metadata = KINDS["a control that merges make"]
    write_vocabulary(tmp_path / "model.gguf", metadata)
    tokenizer = gguf_tokenizer(metadata)
    end = tokenizer.controls[Control("</s>")]
    with engine_tokenizer_of(tmp_path / "model.gguf") as engine:
        assert end in engine.tokenize("a</s>b"), "the engine takes any token for a piece of text"
        assert engine.tokenize("ax</s>b") == tokenizer.encode("ax</s>b"), "not where it is a part of a longer piece"
    ids = tokenizer.encode("a</s>b</s>")
    assert end not in ids
    assert "".join(map(str, PieceDecoder(tokenizer).feed(ids))) == " a</s>b</s>"


def test_a_text_that_goes_on_after_sampled_text_begins_with_no_blank_of_its_own() -> None:
    tokenizer = gguf_tokenizer(sentencepiece(added={"\n\n\n": 4}))
    start = Control("<s>")
    sampled = SampledText("abc", tuple(tokenizer.encode("abc")), tokenizer.name)
    for text in ("ab", " ab", "\n\n\nab", "ab\n\n\nab"):
        ids = encode_pieces([start, sampled, text], tokenizer, SegmentMemo())
        whole = PieceDecoder(tokenizer).feed(ids[1:])
        assert "".join(map(str, whole)) == " abc" + text.replace("\n\n\nab", "\n\n\n ab"), "as the engine has it"
        assert encode_pieces([start, text], tokenizer)[1:] == tokenizer.encode(text)


def test_a_text_of_megabytes_is_encoded_in_parts_that_change_nothing() -> None:
    tokenizer = gguf_tokenizer(sentencepiece(pieces=["a▁"]))
    word = "The quick brown fox don't  aaaa 12345 a b\n\n"
    short = tokenizer.encode(word * 50)
    long = tokenizer.encode(word * 2_000)
    assert long[: len(short) - 20] == short[:-20]
    assert tokenizer.encode_up_to(word * 2_000, 30) == long[:31]
    assert "".join(map(str, PieceDecoder(tokenizer).feed(long))) == " " + word * 2_000


def test_a_byte_that_the_vocabulary_lacks_is_left_out() -> None:
    metadata = sentencepiece()
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    lacking = {**metadata, "tokenizer.ggml.tokens": [t.replace("<0x04>", "<none>") for t in tokens]}
    tokenizer = gguf_tokenizer(lacking)
    assert tokenizer.encode("a\x04b") == [id for id in gguf_tokenizer(metadata).encode("a\x04b") if id != 3 + 4]


@pytest.mark.parametrize("scores", [[0.0], ["x"] * 3000, "high", 7])
def test_scores_that_are_none_are_an_error(scores: object) -> None:
    with pytest.raises(TokenError, match="scores") as raised:
        gguf_tokenizer(sentencepiece(scores=scores))
    assert raised.value.code == "vocabulary_malformed"
