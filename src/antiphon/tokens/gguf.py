"""The vocabulary that a GGUF file describes, with the ids that llama.cpp gives.

Covered exactly: byte-level BPE (`tokenizer.ggml.model` ``gpt2``) with the pre-tokenizers of `PRE_TOKENIZERS`,
SentencePiece (``llama``), pairs of characters (``gemma4``) and WordPiece (``bert``). Any other kind raises `TokenError`
``vocabulary_not_covered``; the engine's own tokenizer serves then (`engine_tokenizer`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

import msgspec

from antiphon.errors import TokenError
from antiphon.errors.extras import extra

from .bytelevel import LETTER_OF_BYTE, byte_token, bytes_of_letters, escaped_bytes, sentencepiece_bytes
from .pieces import Control, Strip
from .pretokenizers import LINES_ALONE, PRE_TOKENIZERS, WHOLE_LINES, PreTokenizer
from .sentencepiece import BLANK, PieceMerges, without_controls
from .slices import (
    EncodeText,
    EncodeUpTo,
    Fewest,
    between_matches,
    between_words,
    cut_at,
    in_slices,
    is_cut,
    library_ids,
    nowhere,
)
from .table import TableTokenizer, is_structure, text_only
from .wordpiece import wordpiece_tokenizer

Metadata = Mapping[str, object]


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`, one for each id."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


FIM_ROLES = ("fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
"""The tokens of a model that fills in the middle of a text: its three marks, and what ends a file."""

_ALWAYS_CONTROL = frozenset((TokenType.CONTROL, TokenType.UNKNOWN))


def gguf_tokenizer(metadata: Metadata) -> TableTokenizer:
    """The tokenizer of a file with this metadata. Errors: `TokenError`, when it is not covered or not well formed."""
    model, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if model == "gemma4" or (model == "gpt2" and pre in LINES_ALONE):
        return _pairs_of_characters(metadata)
    match model:
        case "gpt2":
            return _byte_level(metadata)
        case "llama":
            return _sentencepiece(metadata)
        case "bert":
            parts = read_parts(metadata)
            controls = {Control(parts.tokens[id]): id for id, type in enumerate(parts.types) if type in _ALWAYS_CONTROL}
            return wordpiece_tokenizer(gguf_name(metadata), parts.tokens, controls)
        case _:
            raise _not_covered(f"a {model!r} vocabulary")


def _byte_level(metadata: Metadata) -> TableTokenizer:
    pre = metadata.get("tokenizer.ggml.pre", "default")
    pre_tokenizer = PRE_TOKENIZERS.get(str(pre))
    if pre_tokenizer is None:
        raise _not_covered(f"a 'gpt2' vocabulary with the pre-tokenizer {pre!r}")
    parts = read_parts(metadata)
    merges = _strings(metadata, "tokenizer.ggml.merges")
    known = frozenset(parts.tokens)
    dropped = bytes(byte for byte, letter in LETTER_OF_BYTE.items() if letter not in known)
    encode = in_slices(
        _encoder(parts.tokens, merges, pre_tokenizer), between_matches if pre_tokenizer.gapless else between_words
    )
    in_words = pre_tokenizer.gapless and not any(map(is_cut, parts.texts))
    encoded = text_only(encode, parts.controls)
    return _table(metadata, parts, encoded, added=True, dropped=dropped, in_words=in_words)


def _pairs_of_characters(metadata: Metadata) -> TableTokenizer:
    """Byte pairs of characters, line by line; a run of line breaks that is a token is not merged from its parts."""
    parts = read_parts(metadata)
    pieces = {piece: id for id, piece in enumerate(parts.tokens)}
    merges = dict.fromkeys(_pair(merge) for merge in _strings(metadata, "tokenizer.ggml.merges"))
    if parts.types.count(TokenType.BYTE) != 256:
        raise _not_covered("a vocabulary of pairs of characters without all bytes")
    with extra("local", "the vocabulary of a GGUF file"):
        from tokenizers import Tokenizer, models
    try:
        library = Tokenizer(models.BPE(pieces, list(merges), byte_fallback=True))
    except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
        raise _not_covered(f"a vocabulary whose merges do not fit its tokens ({error})") from None

    def encode(text: str) -> list[int]:
        ids: list[int] = []
        for line in _LINES.findall(text.replace(" ", BLANK)):
            whole = pieces.get(line) if line[0] == "\n" else None
            ids += library_ids(library, line) if whole is None else [whole]
        return ids

    return _table(metadata, parts, text_only(in_slices(encode, cut_at(_LINE_START)), parts.controls), added=True)


_LINES = re.compile(r"[^\n]+|\n+")
_LINE_START = re.compile(r"(?<=\n)(?=[^\n])")


def _sentencepiece(metadata: Metadata) -> TableTokenizer:
    """Merges by scores. Where the file does not say otherwise, each text begins with a blank."""
    parts = read_parts(metadata)
    # The engine reads a token up to a zero, so that none has one.
    pieces = {piece: id for id, piece in enumerate(parts.tokens) if "\0" not in piece}
    scores = _numbers(metadata, "tokenizer.ggml.scores", len(parts.tokens))
    byte_ids = {byte[0]: id for piece, id in pieces.items() if (byte := byte_token(piece))}
    controls = frozenset(parts.controls.values())

    def make(strict: bool) -> EncodeUpTo:
        found = {piece: id for piece, id in pieces.items() if id not in controls} if strict else pieces
        return PieceMerges(found, scores, byte_ids).encoder()

    encode = without_controls(make, controls)

    def begun_with(blank: str) -> EncodeUpTo:
        return lambda text, limit=None: encode(blank + text.replace(" ", BLANK), limit)

    prefixed = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    if not prefixed:
        return _table(metadata, parts, begun_with(""), added=True)
    return _table(metadata, parts, begun_with(BLANK), following=begun_with(""), added=True)


def engine_tokenizer(metadata: Metadata, tokenize: EncodeText) -> TableTokenizer:
    """A GGUF vocabulary whose texts ``tokenize`` encodes: the engine's call, adding and parsing no special tokens.

    An engine parses user-defined tokens (``<think>``) in any text all the same; those that are structure do not get
    through here. ``tokenize`` may block, so long texts are encoded off the event loop, as everywhere.
    """
    return gguf_vocabulary(metadata, in_slices(tokenize, nowhere))


def gguf_vocabulary(metadata: Metadata, encode: EncodeUpTo) -> TableTokenizer:
    """The table of a file around ``encode``, which finds user-defined tokens itself."""
    parts = read_parts(metadata)
    return _table(metadata, parts, text_only(encode, parts.controls))


class Parts(msgspec.Struct, frozen=True):
    """The tokens of a file by their ids, with their types; those that are controls, and the user-defined texts."""

    tokens: list[str]
    types: list[int]
    controls: Mapping[Control, int]
    texts: Mapping[str, int]


def read_parts(metadata: Metadata) -> Parts:
    """Sorts out the tokens of a file. Raises `TokenError`, when they are not well formed."""
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    types = _types(metadata, len(tokens))
    roles = ("bos", "eos", "eot", "eom", *FIM_ROLES)
    ends = {metadata.get(f"tokenizer.ggml.{role}_token_id") for role in roles}
    unknown = _unknown(metadata, types)
    controls: dict[Control, int] = {}
    texts: dict[str, int] = {}
    for id, type in enumerate(types):
        if id == unknown:
            continue  # What the vocabulary cannot spell is text all the same.
        if id in ends or type in _ALWAYS_CONTROL or (type == TokenType.USER_DEFINED and is_structure(tokens[id])):
            controls.setdefault(Control(tokens[id]), id)
        elif type == TokenType.USER_DEFINED:
            texts[tokens[id]] = id
    return Parts(tokens, types, controls, texts)


def _unknown(metadata: Metadata, types: Sequence[int]) -> int | None:
    """The id of all that cannot be spelled, in a vocabulary that cannot spell all bytes. A Unigram spells none."""
    model = metadata.get("tokenizer.ggml.model")
    unigram = model == "t5"
    if model == "gpt2" or (types.count(TokenType.BYTE) == 256 and not unigram):
        return None
    id = metadata.get("tokenizer.ggml.unknown_token_id", 2 if unigram else None)
    return id if isinstance(id, int) else None


def _table(
    metadata: Metadata,
    parts: Parts,
    encode: EncodeUpTo,
    *,
    following: EncodeUpTo | None = None,
    added: bool = False,
    dropped: bytes | None = None,
    in_words: bool = False,
) -> TableTokenizer:
    """The table of a file around ``encode``, which finds user-defined tokens itself unless they are ``added`` here.

    ``following`` encodes text that goes on after text; None: as all text. ``dropped`` are the bytes that are in no
    token; None: it is not known which are.
    """
    if added and parts.texts:
        following = following and with_added(encode, parts.texts, leading=following)
        encode = with_added(encode, parts.texts)
    tokens, types = parts.tokens, parts.types
    text_of = _spelling(metadata)

    def bytes_of(id: int) -> bytes:
        match types[id]:
            case TokenType.USER_DEFINED | TokenType.CONTROL | TokenType.UNKNOWN:
                return tokens[id].encode()
            case TokenType.UNUSED:
                return b""
            case TokenType.BYTE:
                return byte_token(tokens[id]) or b""
            case _:
                return text_of(tokens[id])

    return TableTokenizer(
        gguf_name(metadata),
        len(tokens),
        controls=parts.controls,
        bytes_of=bytes_of,
        encode=encode,
        following=following,
        strips=_strips(metadata, parts),
        fewest=_fewest(metadata.get("tokenizer.ggml.model"), types, bytes_of, dropped),
        in_words=in_words,
    )


_STRIPPED = Strip(behind=" \t\n\v\f\r")


def _strips(metadata: Metadata, parts: Parts) -> dict[Control, Strip]:
    """The engine knows by their name that Phi-3's controls take the blanks behind them away."""
    name = str(metadata.get("general.name", "")).lower()
    if metadata.get("tokenizer.ggml.model") != "llama" or not ("phi-3" in name or "phi3" in name):
        return {}
    keep = ("<unk>", "<s>", "<|endoftext|>")
    return {control: _STRIPPED for control in parts.controls if control.spelling not in keep}


def _fewest(
    model: object, types: Sequence[int], bytes_of: Callable[[int], bytes], dropped: bytes | None
) -> Fewest | None:
    ordinary = [id for id, type in enumerate(types) if type not in _ALWAYS_CONTROL]
    if dropped is not None:
        return Fewest(lambda: map(bytes_of, ordinary), dropped=dropped)
    if model == "llama" and types.count(TokenType.BYTE) == 256:
        # Every byte has a token; a “▁” of the text itself may become one byte, the blank that it stands for.
        return Fewest(lambda: map(bytes_of, ordinary), shrinks=len("▁".encode()))
    return None


def _spelling(metadata: Metadata) -> Callable[[str], bytes]:
    """How the vocabulary's ordinary tokens spell bytes."""
    match metadata.get("tokenizer.ggml.model"):
        case "gpt2" if metadata.get("tokenizer.ggml.pre") in WHOLE_LINES:
            return sentencepiece_bytes
        case "gpt2" | "whitespace":
            return bytes_of_letters
        case "hybriddna":
            return lambda token: bytes_of_letters(token.removesuffix(_KMER))
        case "llama" | "t5" | "bert" | "gemma4":
            return sentencepiece_bytes
        case "plamo2" | "plamo3":
            return str.encode
        case "rwkv":
            return escaped_bytes
        case model:
            raise _not_covered(f"a {model!r} vocabulary")


_KMER = "\ue000"
"""Mark of parts of a DNA sequence in the list of tokens, and no part of them."""


def gguf_name(metadata: Metadata) -> str:
    """A name for the vocabulary that no other one has: a digest of all that decides about ids is in it."""
    digest = hashlib.sha256()
    for key in ("tokens", "token_type", "merges", "scores", "bos_token_id", "eos_token_id", "eot_token_id"):
        digest.update(repr(metadata.get(f"tokenizer.ggml.{key}")).encode("utf-8", "backslashreplace"))
    for key in ("add_space_prefix", "remove_extra_whitespaces", "precompiled_charsmap"):
        if (value := metadata.get(f"tokenizer.ggml.{key}")) is not None:
            digest.update(repr((key, value)).encode())
    kind = metadata.get("tokenizer.ggml.pre") or metadata.get("tokenizer.ggml.model")
    return f"gguf/{kind}/{digest.hexdigest()[:16]}"


def _encoder(tokens: Sequence[str], merges: Sequence[str], pre: PreTokenizer) -> EncodeText:
    # Here and not above, so that importing the room stays light: the library costs tens of milliseconds.
    with extra("local", "the vocabulary of a GGUF file"):
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    size = len(tokens)
    vocabulary = {token: id for id, token in reversed(list(enumerate(tokens)))}
    # The engine drops a byte that its vocabulary lacks but merges nothing across it: we give such a byte an id of its
    # own, above all others, and drop that.
    missing = [letter for letter in LETTER_OF_BYTE.values() if letter not in vocabulary]
    vocabulary |= {letter: size + i for i, letter in enumerate(missing)}
    pairs = dict.fromkeys(_pair(merge) for merge in merges)  # of equal merges the first counts
    try:
        model = models.BPE(vocabulary, list(pairs), ignore_merges=pre.whole_words)
    except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
        raise _not_covered(f"a vocabulary whose merges do not fit its tokens ({error})") from None
    library = Tokenizer(model)
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in pre.expressions]
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([*splits, spelled])

    def encode(text: str) -> list[int]:
        ids = library_ids(library, text)
        return [id for id in ids if id < size] if missing else ids

    return encode


def with_added(encode: EncodeUpTo, added: Mapping[str, int], *, leading: EncodeUpTo | None = None) -> EncodeUpTo:
    """llama.cpp takes user-defined tokens out of a text before all else, the longest first.

    ``leading`` encodes what is before the first of them, ``encode`` what is between and behind.
    """
    spellings = sorted(added, key=lambda spelling: len(spelling.encode()), reverse=True)

    def encode_parts(text: str, limit: int | None, first: int, encode_first: EncodeUpTo) -> list[int]:
        for i in range(first, len(spellings)):
            if spellings[i] not in text:
                continue
            before, *after = text.split(spellings[i])
            ids = encode_parts(before, limit, i + 1, encode_first)
            for part in after:
                if limit is not None and len(ids) > limit:
                    break
                ids += [added[spellings[i]], *encode_parts(part, limit, i + 1, encode)]
            return ids
        return encode_first(text, limit) if text else []

    return lambda text, limit=None: encode_parts(text, limit, 0, leading or encode)


_MERGE = re.compile(r"(.[^ ]*) (.*)", re.DOTALL)


def _pair(merge: str) -> tuple[str, str]:
    found = _MERGE.fullmatch(merge)
    if found is None:
        raise TokenError(f"the merge {merge!r} is not two tokens", code="vocabulary_malformed")
    return found[1], found[2]


def _strings(metadata: Metadata, key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise TokenError(f"{key} is not a list of strings", code="vocabulary_malformed")
    return list(value)


def _types(metadata: Metadata, count: int) -> list[int]:
    value = metadata.get("tokenizer.ggml.token_type", [TokenType.NORMAL] * count)
    if not isinstance(value, Sequence) or not all(isinstance(item, int) for item in value) or len(value) < count:
        raise TokenError(f"tokenizer.ggml.token_type is not a list of {count} numbers", code="vocabulary_malformed")
    return list(value[:count])


def _numbers(metadata: Metadata, key: str, count: int) -> list[float]:
    value = metadata.get(key, [0.0] * count)
    if not isinstance(value, Sequence) or not all(isinstance(one, int | float) for one in value) or len(value) < count:
        raise TokenError(f"{key} is not a list of {count} numbers", code="vocabulary_malformed")
    return [float(number) for number in value[:count]]


def _not_covered(what: str) -> TokenError:
    return TokenError(
        f"{what} is not covered exactly", code="vocabulary_not_covered", hint="Use the engine's own tokenizer."
    )
