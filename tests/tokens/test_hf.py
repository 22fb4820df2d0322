"""A `tokenizer.json` gives the library's ids on text, and text never gives a control."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from antiphon.errors import TokenError
from antiphon.tokens import Control, PieceDecoder, encode_pieces, hf_tokenizer, well_formed
from kit.strings import TEXT, varied_strings

SPECIAL = ("<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "<tool_call>", "[INST]")
TEXTS = ("    ", "ø")


def byte_level() -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet))
    return library


def sentencepiece() -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    library.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", *bytes_], show_progress=False)
    library.train_from_iterator([TEXT.replace(" ", "▁")], trainer)
    document = json.loads(library.to_str())
    document["added_tokens"] = document["added_tokens"][:1]
    return tokenizers.Tokenizer.from_str(json.dumps(document))


def unigram() -> tokenizers.Tokenizer:
    bytes_ = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    pieces = [("<unk>", 0.0), *bytes_, ("<think>", 0.0), *((c, -9.0) for c in "▁abcdefghijknmt<>"), ("▁a", -3.0)]
    library = tokenizers.Tokenizer(models.Unigram(pieces, 0, byte_fallback=True))
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return library


def with_added(library: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    library.add_special_tokens(list(SPECIAL))
    library.add_tokens([AddedToken(tag, normalized=False) for tag in (*TAGS, *TEXTS)])
    return library


@pytest.fixture(params=[byte_level, sentencepiece, unigram], ids=["byte-level", "sentencepiece", "unigram"])
def library(request: pytest.FixtureRequest) -> tokenizers.Tokenizer:
    made: tokenizers.Tokenizer = request.param()
    return with_added(made)


def test_ids_of_text_without_tags_are_the_librarys_own(library: tokenizers.Tokenizer) -> None:
    tokenizer = hf_tokenizer(library.to_str())
    for text in varied_strings(2_000):
        text = well_formed(text)
        if not any(spelling in text for spelling in (*SPECIAL, *TAGS)):
            assert tokenizer.encode(text) == library.encode(text, add_special_tokens=False).ids


def test_ids_of_text_that_spells_a_control_are_those_of_the_library_without_it(library: tokenizers.Tokenizer) -> None:
    """Not only no control, but the text as it is encoded where there is none: nothing is cut that need not be."""
    tokenizer = hf_tokenizer(library.to_str())
    document = json.loads(library.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if not token["special"]]
    plain = tokenizers.Tokenizer.from_str(json.dumps(document))
    for text in ("<|im_end|>", "a <|im_start|>system", "many<|im_end|><|im_end|>times"):
        assert tokenizer.encode(text) == plain.encode(text, add_special_tokens=False).ids


def test_added_tokens_that_are_special_or_tags_are_controls_with_their_ids(library: tokenizers.Tokenizer) -> None:
    tokenizer = hf_tokenizer(library.to_str())
    vocabulary = library.get_vocab()
    for spelling in (*SPECIAL, *TAGS):
        assert tokenizer.controls[Control(spelling)] == vocabulary[spelling]
        assert tokenizer.piece(vocabulary[spelling]) == Control(spelling)
    for spelling in TEXTS:
        assert tokenizer.encode(spelling) == [vocabulary[spelling]]
        assert tokenizer.piece(vocabulary[spelling]) == spelling.encode()


@pytest.mark.parametrize("spelling", [*SPECIAL, *TAGS])
def test_text_never_becomes_a_control(library: tokenizers.Tokenizer, spelling: str) -> None:
    tokenizer = hf_tokenizer(library.to_str())
    text = f"a{spelling}b {spelling}{spelling}\n＜think＞"
    assert library.token_to_id(spelling) in library.encode(text).ids, "the library alone does find it"
    assert set(tokenizer.controls.values()).isdisjoint(tokenizer.encode(text))


def test_every_text_comes_back_from_a_byte_level_vocabulary() -> None:
    tokenizer = hf_tokenizer(with_added(byte_level()).to_str())
    for text in varied_strings(1_000):
        decoder = PieceDecoder(tokenizer)
        assert "".join(map(str, decoder.feed(tokenizer.encode(text)) + decoder.close())) == well_formed(text)


def test_a_shortening_or_framing_tokenizer_shortens_and_frames_nothing_here() -> None:
    library = with_added(byte_level())
    plain = hf_tokenizer(library.to_str()).encode("a b c d")
    library.enable_truncation(2)
    library.enable_padding(length=64)
    library.post_processor = tokenizers.processors.TemplateProcessing(
        "<|im_start|> $A", special_tokens=[("<|im_start|>", 500)]
    )
    assert hf_tokenizer(library.to_str()).encode("a b c d") == plain


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"added_tokens": [{"id": "x"}]}, "vocabulary_malformed"),
        ({"model": {"type": "Nonsense"}}, "vocabulary_malformed"),
    ],
)
def test_a_tokenizer_with_a_part_of_another_kind_is_refused(changes: dict[str, Any], code: str) -> None:
    text = json.dumps({**json.loads(byte_level().to_str()), **changes})
    with pytest.raises(TokenError) as raised:
        hf_tokenizer(text)
    assert raised.value.code == code


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_what_is_not_a_tokenizer_is_refused(text: str) -> None:
    with pytest.raises(TokenError) as raised:
        hf_tokenizer(text)
    assert raised.value.code == "vocabulary_malformed"


METASPACE = {"type": "Metaspace", "replacement": "▁", "split": False}


def begun(scheme: str) -> str:
    """A vocabulary of pieces whose texts begin with a blank: each ("always"), or the first ("first")."""
    start = {"single_word": False, "lstrip": False, "rstrip": True, "normalized": False, "special": True}
    document = {
        "version": "1.0",
        "normalizer": None,
        "post_processor": None,
        "model": {
            "type": "BPE",
            "vocab": {"<s>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "ab": 5},
            "merges": [["▁", "a"], ["a", "b"]],
        },
        "pre_tokenizer": {**METASPACE, "prepend_scheme": scheme},
        "decoder": {**METASPACE, "prepend_scheme": scheme},
        "added_tokens": [{"id": 0, "content": "<s>", **start}],
    }
    return json.dumps(document)


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("texts", [["", "a"], ["", " \n a", "b"], ["a", "a"], ["ab", "  a"]])
def test_texts_between_controls_begin_as_the_library_has_it(scheme: str, texts: list[str]) -> None:
    """A control takes the blanks behind it, and a text there begins with one or not."""
    library = tokenizers.Tokenizer.from_str(begun(scheme))
    pieces = [piece for text in texts for piece in (text, Control("<s>"))][:-1]
    expected = library.encode("<s>".join(texts), add_special_tokens=False).ids
    assert encode_pieces(pieces, hf_tokenizer(begun(scheme))) == expected
