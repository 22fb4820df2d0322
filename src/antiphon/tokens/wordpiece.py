"""WordPiece, the vocabulary of BERT and of sentence encoders, as a GGUF file describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .bytelevel import sentencepiece_bytes
from .pieces import Control
from .table import TableTokenizer, text_only

_WORD_START = "▁"
_UNKNOWN = "[UNK]"


def wordpiece_tokenizer(name: str, tokens: Sequence[str], controls: Mapping[Control, int]) -> TableTokenizer:
    """A tokenizer of lower-cased words without accents. ``tokens`` mark the pieces that begin a word by ``▁``.

    A word that the vocabulary cannot spell is one ``[UNK]``, which is therefore no control.
    """
    # Here and not above, so that importing the room stays light: the library costs tens of milliseconds.
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    controls = {control: id for control, id in controls.items() if control.spelling != _UNKNOWN}
    ids = set(controls.values())
    vocabulary = {_wordpiece(token): id for id, token in reversed(list(enumerate(tokens))) if id not in ids}
    library = Tokenizer(models.WordPiece(vocabulary, unk_token=_UNKNOWN, max_input_chars_per_word=100))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def encode(text: str) -> list[int]:
        found: list[int] = library.encode(text, add_special_tokens=False).ids
        return found

    return TableTokenizer(
        name,
        len(tokens),
        controls=controls,
        bytes_of=lambda id: sentencepiece_bytes(tokens[id]),
        encode=text_only(encode, controls),
    )


def _wordpiece(token: str) -> str:
    if token == _UNKNOWN:
        return token
    return token.removeprefix(_WORD_START) if token.startswith(_WORD_START) else f"##{token}"
