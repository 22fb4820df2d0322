"""o200k_harmony ships with the package and is exact, whichever backend encodes."""

from __future__ import annotations

import base64
import hashlib
import threading
import time

import pytest
import tiktoken

from antiphon.tokens import Control, PieceDecoder, TableTokenizer, o200k_harmony, tiktoken_tokenizer, well_formed
from antiphon.tokens.bpe import O200kRanks
from kit.strings import varied_strings


@pytest.fixture(scope="module", params=["tiktoken", "splintr"])
def tokenizer(request: pytest.FixtureRequest) -> TableTokenizer:
    return o200k_harmony(request.param)


def test_the_shipped_ranks_are_the_published_file() -> None:
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in O200kRanks().as_dict().items())
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    assert digest == "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


@pytest.mark.spec("HAR-26")
def test_the_controls_are_those_of_the_harmony_vocabulary(tokenizer: TableTokenizer) -> None:
    named = {
        199998: "<|startoftext|>",
        199999: "<|endoftext|>",
        200002: "<|return|>",
        200003: "<|constrain|>",
        200005: "<|channel|>",
        200006: "<|start|>",
        200007: "<|end|>",
        200008: "<|message|>",
        200012: "<|call|>",
        200000: "<|reserved_200000|>",
        200013: "<|reserved_200013|>",
        200018: "<|reserved_200018|>",
        201088: "<|reserved_201088|>",
    }
    assert len(tokenizer.controls) == 1091
    assert {id: tokenizer.piece(id) for id in named} == {id: Control(spelling) for id, spelling in named.items()}
    assert [tokenizer.piece(id) for id in (-1, 201089, 10**12)] == [b"", b"", b""]
    assert tokenizer.size == 201089


def test_known_words_have_their_known_ids(tokenizer: TableTokenizer) -> None:
    words = {"assistant": [173781], "commentary": [12606, 815], "analysis": [35644], "final": [17196], " to": [316]}
    assert {word: tokenizer.encode(word) for word in words} == words


def test_no_spelling_of_a_control_becomes_one(tokenizer: TableTokenizer) -> None:
    for control in tokenizer.controls:
        assert max(tokenizer.encode(f"a{control.spelling}b")) < 199998


def test_the_backends_give_the_same_ids_and_every_text_back(tokenizer: TableTokenizer) -> None:
    reference = o200k_harmony("tiktoken")
    for text in varied_strings(3_000):
        ids = tokenizer.encode(text)
        assert ids == reference.encode(text)
        decoder = PieceDecoder(tokenizer)
        assert "".join(map(str, decoder.feed(ids) + decoder.close())) == well_formed(text)


@pytest.mark.parametrize("character", ["a", " ", "=", "中", "\n"])
def test_a_run_of_equal_characters_costs_no_more_than_its_length(tokenizer: TableTokenizer, character: str) -> None:
    def seconds(count: int) -> float:
        start = time.thread_time()
        tokenizer.encode(character * count)
        return time.thread_time() - start

    seconds(100_000)  # some backends build tables on first use
    short = min(seconds(10_000) for _ in range(3))
    # Ten times the characters in a hundred times the time would be quadratic; noise stays far below half of that.
    assert min(seconds(100_000) for _ in range(2)) < max(short, 1e-3) * 50


def test_a_million_blanks_do_not_break_the_expression_engine(tokenizer: TableTokenizer) -> None:
    text = "a" + " " * 1_200_000 + "b"
    assert (
        b"".join(piece for piece in map(tokenizer.piece, tokenizer.encode(text)) if isinstance(piece, bytes))
        == text.encode()
    )


def test_threads_share_a_tokenizer(tokenizer: TableTokenizer) -> None:
    texts = list(varied_strings(200, seed=3))
    expected = [tokenizer.encode(text) for text in texts]
    found: list[list[list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append([*map(tokenizer.encode, texts)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_it_is_loaded_once() -> None:
    assert o200k_harmony() is o200k_harmony()


def test_any_tiktoken_encoding_can_serve() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"abc": 257}
    encoding = tiktoken.Encoding("tiny", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 300})
    tokenizer = tiktoken_tokenizer(encoding)
    assert tokenizer.encode("abc <|end|>\ud800") == encoding.encode_ordinary("abc <|end|>\ufffd")
    assert tokenizer.piece(300) == Control("<|end|>")
    assert [tokenizer.piece(id) for id in (257, 299, 301)] == [b"abc", b"", b""]
