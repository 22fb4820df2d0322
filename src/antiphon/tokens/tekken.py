"""The file `tekken.json` of Mistral's models: ranks of byte sequences, behind the special tokens."""

from __future__ import annotations

import binascii
import hashlib

import msgspec

from antiphon.errors import TokenError
from antiphon.structs import ready

from .bpe import tiktoken_tokenizer
from .table import TableTokenizer

_NAMED = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()
"""The special tokens of files that do not name theirs, in order; those after them are numbered."""


class _Config(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int


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
    """The tokenizer of the file; its special tokens are controls. Errors: `TokenError` (``vocabulary_malformed``)."""
    from tiktoken import Encoding  # text needs no vocabulary

    try:
        file = msgspec.json.decode(data, type=ready(_Tekken))
        first, size = file.config.default_num_special_tokens, file.config.default_vocab_size
        ranks = {binascii.a2b_base64(token.token_bytes): first + token.rank for token in file.vocab[: size - first]}
    except (msgspec.DecodeError, binascii.Error) as error:
        raise TokenError(f"the tekken.json cannot be read: {error}", code="vocabulary_malformed") from None
    special = {f"<SPECIAL_{id}>": id for id in range(len(_NAMED), first)} | {name: id for id, name in enumerate(_NAMED)}
    if file.special_tokens is not None:
        named = {token.rank: token.token_str for token in file.special_tokens}
        special = {named.get(id, f"<SPECIAL_{id}>"): id for id in range(first)}
    name = f"tekken/{hashlib.sha256(data).hexdigest()[:16]}"
    try:
        encoding = Encoding(name, pat_str=file.config.pattern, mergeable_ranks=ranks, special_tokens=special)
    except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
        raise TokenError(f"the tekken.json cannot be used: {error}", code="vocabulary_malformed") from None
    return tiktoken_tokenizer(encoding)
