"""The file `tokenizer.model` of SentencePiece: what it says, and a tokenizer of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import msgspec

from antiphon.errors import Position, TokenError
from antiphon.errors.extras import extra

from .gguf import gguf_tokenizer, gguf_vocabulary, with_added
from .slices import in_slices, nowhere
from .table import TableTokenizer, is_structure

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BPE = 2
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4

Added = Mapping[int, tuple[str, bool]]
"""Tokens that a folder adds, by their ids: what they spell, and whether they are flagged as special."""


class SentencePieceModel(msgspec.Struct, frozen=True):
    """Contents of the file: pieces by their ids with scores and types, and how texts are encoded."""

    pieces: list[str]
    scores: list[float]
    types: list[int]
    merges: bool
    begins: bool
    plain: bool
    """Texts are not normalised: neither by a table, nor by leaving blanks out."""


def sentencepiece_tokenizer(data: bytes, added: Added | None = None) -> TableTokenizer:
    """The tokenizer of a `tokenizer.model`, with the tokens that a folder adds behind its own.

    Merges are made by our own tables; models of other kinds, those that normalise texts and those with user-defined
    pieces need the library `sentencepiece`. Errors: `TokenError` (``vocabulary_malformed``), `ConfigError` where the
    library is not installed.
    """
    model = read_sentencepiece(data)
    metadata = _metadata(model, added or {})
    if model.merges and model.plain and _USER_DEFINED not in model.types:
        return gguf_tokenizer(metadata)
    with extra("hf", "this tokenizer.model"):
        from sentencepiece import SentencePieceProcessor

    # What builds structure is a control here, and the library finds in texts what is user-defined.
    library = SentencePieceProcessor(model_proto=_with_controls(data))
    encode = in_slices(lambda text: list(library.encode(text)), nowhere)
    own = len(model.pieces)
    texts = {spelling: id for id, (spelling, special) in (added or {}).items() if id >= own and not special}
    return gguf_vocabulary(metadata, with_added(encode, texts) if texts else encode)


def read_sentencepiece(data: bytes) -> SentencePieceModel:
    """Reads the file. Raises `TokenError` (``vocabulary_malformed``) with the position."""
    pieces: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, int] = {}
    normalizer: dict[int, int] = {}
    for number, value, _ in _fields(data):
        if number == 1 and isinstance(value, bytes):
            piece = {inner: found for inner, found, _ in _fields(value)}
            spelled, score, type = piece.get(1, b""), piece.get(2, 0), piece.get(3, 1)
            if not (isinstance(spelled, bytes) and isinstance(score, int) and isinstance(type, int)) or score >> 32:
                raise TokenError(f"piece {len(pieces)} of the tokenizer.model is none", code="vocabulary_malformed")
            pieces.append(spelled.decode("utf-8", "replace"))
            scores.append(struct.unpack("<f", struct.pack("<I", score))[0])
            types.append(type)
        elif number in (2, 3) and isinstance(value, bytes):
            table = trainer if number == 2 else normalizer
            table |= {inner: len(found) if isinstance(found, bytes) else found for inner, found, _ in _fields(value)}
    if not pieces:
        raise TokenError("the tokenizer.model has no pieces", code="vocabulary_malformed")
    suffixed = bool(trainer.get(24))
    return SentencePieceModel(
        pieces,
        scores,
        types,
        merges=trainer.get(3, 1) == _BPE,
        begins=bool(normalizer.get(3, 1)),
        plain=not normalizer.get(2) and not normalizer.get(4, 1) and bool(normalizer.get(5, 1)) and not suffixed,
    )


def _metadata(model: SentencePieceModel, added: Added) -> dict[str, object]:
    """The same as a GGUF file would have it."""
    size = max(len(model.pieces), 1 + max(added, default=-1))
    gap = range(len(model.pieces), size)
    tokens = [*model.pieces, *(f"[unused{id}]" for id in gap)]
    types = [*model.types, *(5 for _ in gap)]
    for id, (spelling, special) in added.items():
        if id < 0 or (id < len(model.pieces) and tokens[id] != spelling):
            raise TokenError(f"the added token {id} is another piece already", code="vocabulary_malformed")
        if id >= len(model.pieces) or special:
            tokens[id], types[id] = spelling, _CONTROL if special else _USER_DEFINED
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [*model.scores, *(0.0 for _ in gap)],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.add_space_prefix": model.begins,
        "tokenizer.ggml.unknown_token_id": model.types.index(_UNKNOWN) if _UNKNOWN in model.types else 0,
    }


def _with_controls(data: bytes) -> bytes:
    """The file with each user-defined piece that is structure as a control, which the library finds in no text."""
    parts = []
    for number, value, whole in _fields(data):
        piece = {inner: found for inner, found, _ in _fields(value)} if number == 1 and isinstance(value, bytes) else {}
        spelled = piece.get(1)
        if piece.get(3) == _USER_DEFINED and isinstance(spelled, bytes) and is_structure(spelled.decode()):
            assert isinstance(value, bytes)
            body = value + bytes((3 << 3, _CONTROL))  # Of a field that is there twice the last one counts.
            whole = bytes((1 << 3 | _BYTES,)) + _varint(len(body)) + body
        parts.append(whole)
    return b"".join(parts)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """The fields of a message of Protocol Buffers: number, value, and its bytes as they are."""
    at = 0
    while at < len(data):
        start = at
        key, at = _read_varint(data, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _read_varint(data, at)
            case 1:
                value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
            case 2:
                length, at = _read_varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = int.from_bytes(data[at : at + 4], "little"), at + 4
            case _:
                raise _malformed(start)
        if at > len(data):
            raise _malformed(start)
        yield key >> 3, value, data[start:at]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _malformed(at)
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _malformed(at)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _malformed(at: int) -> TokenError:
    return TokenError(
        "the tokenizer.model is no model of SentencePiece",
        code="vocabulary_malformed",
        position=Position(offset=at),
    )
