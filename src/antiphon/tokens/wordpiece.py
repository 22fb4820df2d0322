"""WordPiece, the vocabulary of BERT and of sentence encoders, as a GGUF file describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antiphon.errors.extras import extra

from .bytelevel import sentencepiece_bytes
from .pieces import Control
from .slices import SHORT, between_matches, in_bytes, in_slices, library_ids
from .table import TableTokenizer, text_only

_WORD_START = "▁"
_UNKNOWN = "[UNK]"
_LONGEST_WORD = 100
"""Characters of a word that the vocabulary may spell; a longer one is unknown."""
_NOTHING = bytes((*range(0x21), 0x7F))
"""Bytes that may stand in any number between two words."""


def wordpiece_tokenizer(name: str, tokens: Sequence[str], controls: Mapping[Control, int]) -> TableTokenizer:
    """A tokenizer of lower-cased words without accents. ``tokens`` mark the pieces that begin a word by ``▁``.

    A word that the vocabulary cannot spell is one ``[UNK]``, which is therefore no control.
    """
    # Here and not above, so that importing the room stays light: the library costs tens of milliseconds.
    with extra("local", "the vocabulary of a GGUF file"):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    controls = {control: id for control, id in controls.items() if control.spelling != _UNKNOWN}
    ids = set(controls.values())
    vocabulary = {_wordpiece(token): id for id, token in reversed(list(enumerate(tokens))) if id not in ids}
    library = Tokenizer(models.WordPiece(vocabulary, unk_token=_UNKNOWN, max_input_chars_per_word=_LONGEST_WORD))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    encode = in_slices(lambda text: library_ids(library, text), between_matches)
    return TableTokenizer(
        name,
        len(tokens),
        controls=controls,
        bytes_of=lambda id: sentencepiece_bytes(tokens[id]),
        encode=text_only(encode, controls),
        fewest=_fewest,
    )


def _fewest(text: str) -> int:
    """Counts how many ids a text of words has at least; an unknown word of any length may be one."""
    if len(text) <= SHORT:
        return 0
    return sum(len(part.translate(None, _NOTHING)) for part in in_bytes(text)) // (4 * _LONGEST_WORD)


def _wordpiece(token: str) -> str:
    if token == _UNKNOWN:
        return token
    return token.removeprefix(_WORD_START) if token.startswith(_WORD_START) else f"##{token}"
