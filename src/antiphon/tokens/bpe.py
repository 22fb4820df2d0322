"""The tiktoken family: any `tiktoken` encoding, and `o200k_harmony`, which ships with the package and works offline."""

from __future__ import annotations

import binascii
import hashlib
import re
from array import array
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal

import msgspec

from antiphon.errors import TokenError
from antiphon.structs import ready

from .pieces import Control
from .slices import SLICE, EncodeText, Fewest, between_matches, in_slices, nowhere
from .table import TableTokenizer

if TYPE_CHECKING:
    from tiktoken import Encoding


Backend = Literal["auto", "tiktoken", "splintr"]

_RANKS = 199_998
_PACKED_SHA256 = "440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9"
_SIZE = 201_089
_NAMED = {
    199998: "<|startoftext|>",
    199999: "<|endoftext|>",
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}
_WORD = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_WORD[0]}*{_WORD[1]}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_WORD[0]}+{_WORD[1]}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


@lru_cache(maxsize=3)
def o200k_harmony(backend: Backend = "auto") -> TableTokenizer:
    """The vocabulary of gpt-oss, read once a process for each ``backend``.

    ``auto`` takes `splintr` when it is installed and gives the right ids for built-in vectors, else `tiktoken`. Errors:
    `TokenError` ``backend_unavailable``, when `splintr` is named and cannot serve.
    """
    ranks = O200kRanks()
    encode = None if backend == "tiktoken" else _splintr()
    if encode is None:
        if backend == "splintr":
            raise TokenError(
                "splintr is not installed, or not exact",
                code="backend_unavailable",
                hint="pip install 'antiphon[fast]'",
            )
        encode = _tiktoken(ranks)
    controls = {Control(_NAMED.get(id, f"<|reserved_{id}|>")): id for id in range(_RANKS, _SIZE)}
    fewest = Fewest(lambda: map(ranks.token, range(_RANKS)))
    bounded = in_slices(encode, between_matches)
    return TableTokenizer(
        "o200k_harmony", _SIZE, controls=controls, bytes_of=ranks.token, encode=bounded, fewest=fewest
    )


def tiktoken_tokenizer(encoding: Encoding) -> TableTokenizer:
    """A `tiktoken` encoding; its special tokens are the controls."""
    controls = {Control(spelling): encoding.encode_single_token(spelling) for spelling in encoding.special_tokens_set}

    def bytes_of(id: int) -> bytes:
        try:
            return encoding.decode_single_token_bytes(id)
        except KeyError:
            return b""  # a gap between the ranks and the special tokens

    size = encoding.n_vocab
    encode = in_slices(_in_parts(encoding.encode_ordinary), nowhere)
    fewest = Fewest(lambda: map(bytes_of, set(range(size)) - set(controls.values())))
    return TableTokenizer(encoding.name, size, controls=controls, bytes_of=bytes_of, encode=encode, fewest=fewest)


class O200kRanks:
    """The shipped ranks: the tokens one after the other, and where each ends. Errors: ``vocabulary_malformed``."""

    def __init__(self) -> None:
        # Imported here, and not above: text needs no vocabulary.
        import gzip
        import hashlib
        from importlib.resources import files

        self._packed = gzip.decompress((files(__package__) / "ranks" / "o200k_base.gz").read_bytes())
        if hashlib.sha256(self._packed).hexdigest() != _PACKED_SHA256:
            raise TokenError("the shipped o200k ranks are damaged", code="vocabulary_malformed", hint="Install anew.")
        self._ends = array("I", accumulate(self._packed[:_RANKS], initial=_RANKS))

    def token(self, rank: int) -> bytes:
        """The bytes of the token with this rank, 0 … 199,997."""
        return self._packed[self._ends[rank] : self._ends[rank + 1]]

    def as_dict(self) -> dict[bytes, int]:
        """Each token's rank, as `tiktoken` wants it."""
        packed = self._packed
        return {packed[start:end]: rank for rank, (start, end) in enumerate(pairwise(self._ends))}


def _tiktoken(ranks: O200kRanks) -> EncodeText:
    # The class below `tiktoken.Encoding`: that one keeps the dictionary of ranks, which is 16 MB that nobody reads.
    # Imported here, and not above, so that importing the room stays light.
    from tiktoken._tiktoken import CoreBPE

    return _in_parts(CoreBPE(ranks.as_dict(), {}, PATTERN).encode_ordinary)


_VECTORS: dict[str, tuple[int, ...]] = {
    "Hello, world! It's 2024-06; don't WE'LL  you?": (
        *(13225, 11, 2375, 0, 7744, 220, 1323, 19, 12, 3218, 26, 4128, 26919, 6, 7454, 220, 481, 30),
    ),
    "naïve Straße ﬁn 你好，世界。こんにちは カタカナ 한국어 привет": (
        *(1503, 9954, 737, 71184, 99462, 77, 220, 177519, 979, 28428, 788, 95839, 52753, 12288, 14214),
        *(27354, 52971, 5959, 145259),
    ),
    "١٢٣ 12345678 ½ x²": (46600, 53184, 81473, 220, 7633, 19354, 4388, 220, 27124, 1215, 13848),
    "  a\n\n  b\t\tc \r\n\r\n d   ": (220, 261, 279, 220, 287, 197, 2736, 41840, 272, 271),
    "<|start|>user<|message|>def f(x):\n    return x ** 2  # ok": (
        *(27, 91, 5236, 91, 29, 1428, 27, 91, 3938, 91, 29, 1314, 285, 4061, 1883, 271, 622, 1215, 6240, 220, 17),
        *(220, 1069, 4763),
    ),
    "\x00\x1f\u200b\ufffd𝐀𐐀ǅʰ": (188, 219, 3310, 3251, 91362, 222, 172, 238, 238, 222, 131, 227, 134, 108),
}
"""Self-test of a backend that is not the reference."""


def _splintr() -> EncodeText | None:
    try:
        from splintr import Tokenizer
    except ImportError:
        return None
    library = Tokenizer.from_pretrained("o200k_base")

    def encode(text: str) -> list[int]:
        ids: list[int] = library.encode_ordinary(text) if _is_short(text) else library.encode_batch([text])[0]
        return ids

    return encode if all(encode(text) == list(ids) for text, ids in _VECTORS.items()) else None


def _is_short(text: str) -> bool:
    """Whether a text may be encoded under the interpreter's lock; for one text without control spellings the call
    for several, which gives the lock away, gives the same ids."""
    return len(text) <= 2 * SLICE or "<|" in text


_LONG = 500_000
_LONG_BLANKS = re.compile(rf"\s{{{_LONG}}}")


def _in_parts(encode: EncodeText) -> EncodeText:
    """The expression engine below gives up (it panics) in a run of a million blanks: such a run is cut."""

    def encode_text(text: str) -> list[int]:
        if len(text) < _LONG:
            return encode(text)
        ends = [match.end() for match in _LONG_BLANKS.finditer(text)]
        return [id for start, end in pairwise((0, *ends, len(text))) for id in encode(text[start:end])]

    return encode_text


# The file `tekken.json` of Mistral's models: ranks of byte sequences, behind the special tokens.

_NAMED_FILES = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()
"""The special tokens of files that do not name theirs, in order; those after them are numbered."""


class _Config(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int
    version: str = ""


class _Token(msgspec.Struct):
    rank: int
    token_bytes: str


class _Special(msgspec.Struct):
    rank: int
    token_str: str


class _Tekken(msgspec.Struct):
    config: _Config
    vocab: list[_Token]
    special_tokens: list[_Special] | None = None


def tekken_tokenizer(data: bytes) -> TableTokenizer:
    """The tokenizer of the file; its special tokens are controls, and its name begins with ``tekken-VERSION/``.

    Errors: `TokenError` (``vocabulary_malformed``).
    """
    from tiktoken import Encoding  # text needs no vocabulary

    try:
        file = msgspec.json.decode(data, type=ready(_Tekken))
        first, size = file.config.default_num_special_tokens, file.config.default_vocab_size
        ranks = {binascii.a2b_base64(token.token_bytes): first + token.rank for token in file.vocab[: size - first]}
    except (msgspec.DecodeError, binascii.Error) as error:
        raise TokenError(f"the tekken.json cannot be read: {error}", code="vocabulary_malformed") from None
    special = {f"<SPECIAL_{id}>": id for id in range(len(_NAMED_FILES), first)} | {
        name: id for id, name in enumerate(_NAMED_FILES)
    }
    if file.special_tokens is not None:
        named = {token.rank: token.token_str for token in file.special_tokens}
        special = {named.get(id, f"<SPECIAL_{id}>"): id for id in range(first)}
    name = f"tekken-{file.config.version}/{hashlib.sha256(data).hexdigest()[:16]}"
    try:
        encoding = Encoding(name, pat_str=file.config.pattern, mergeable_ranks=ranks, special_tokens=special)
    except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
        raise TokenError(f"the tekken.json cannot be used: {error}", code="vocabulary_malformed") from None
    return tiktoken_tokenizer(encoding)
