"""The vocabulary of a Hugging Face `tokenizer.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.errors import Position, TokenError
from antiphon.errors.extras import require

from .bytelevel import LETTER_OF_BYTE, bytes_of_letters, sentencepiece_bytes
from .pieces import Control, Strip, utf8
from .slices import Cut, Fewest, between_matches, in_slices, is_cut, library_ids, nowhere
from .table import TableTokenizer, is_structure, text_only

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# What a `tokenizer.json` says of long texts: where they may be cut, and whether a text can lose bytes on its way.

_BLANKS = r"\s+(?!\S)|\s+"
_REST = r" ?[^\s\p{L}\p{N}]+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MATCH_ALL = frozenset(
    (
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_REST}|{_BLANKS}",
        *(
            rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORD}|{digits}|{_REST}[\r\n]*|\s*[\r\n]+|{_BLANKS}"
            for digits in (r"\p{N}", r"\p{N}{1,3}")
        ),
    )
)
"""Expressions of GPT-2's family, which match everything; `between_matches` is exact for them."""
_COMPOSING = frozenset(("NFC", "NFD", "NFKC", "NFKD"))
_COMPOSES = 4
"""By how many times composing shortens UTF-8 at most: the four bytes of a letter of mathematics to one."""
_ALL_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256))

Part = Mapping[str, Any]


class Beginning(msgspec.Struct, frozen=True):
    """A blank that begins a text: ``without`` are the parts of a document that write none; ``once``: only the first."""

    without: Part
    once: bool


def beginning(document: Part) -> Beginning | None:
    """How a text begins; None: as it is."""
    without = {}
    once = False
    for name in ("normalizer", "pre_tokenizer"):
        part = document.get(name)
        changed = _without_blank(part)
        if changed != part:
            without[name] = changed
            once = once or '"first"' in msgspec.json.encode(part).decode()
    return Beginning(without, once) if without else None


def _without_blank(part: Any) -> Any:
    """The same step, and those inside, writing no blank before a text."""
    if not isinstance(part, dict):
        return part
    match part.get("type"):
        case "Metaspace":
            return {
                **part,
                "prepend_scheme": "never",
                **({"add_prefix_space": False} if "add_prefix_space" in part else {}),
            }
        case "ByteLevel":
            return {**part, "add_prefix_space": False}
        case "Prepend":
            return {"type": "Sequence", "normalizers": []}
    several = {
        key: [_without_blank(step) for step in part[key]] for key in ("normalizers", "pretokenizers") if key in part
    }
    return {**part, **several}


def cut_of(document: Part) -> Cut:
    """How a long text is cut: nowhere, unless it is known how it is split, and no added token is in the way."""
    splits = _steps(document, "pre_tokenizer", "pretokenizers")
    known = all(step.get("type") == "NFC" for step in _steps(document, "normalizer", "normalizers"))
    cuts = known and all(map(_is_known, splits)) and any(map(_matches_all, splits))
    return between_matches if cuts and not any(map(_looks_around, _added_texts(document))) else nowhere


def shrinking(document: Part) -> int | None:
    """By how many times a text may be shortened on its way to its tokens; None: nothing is known of that."""
    splits = _steps(document, "pre_tokenizer", "pretokenizers")
    changes = _steps(document, "normalizer", "normalizers")
    if not _spells_all_bytes(document["model"], splits) or not all(map(_only_composes, changes)):
        return None
    if any(token.get("lstrip") or token.get("rstrip") for token in _added_texts(document)) or any(
        map(_removes, splits)
    ):
        return None
    return 1 if _is_byte_level(splits) and not changes else _COMPOSES


def _steps(document: Part, name: str, several: str) -> list[Part]:
    part = document.get(name) or {}
    if part.get("type") == "Sequence":
        return [step for inner in part.get(several) or () for step in _steps({name: inner}, name, several)]
    return [part] if part else []


def _added_texts(document: Part) -> list[Part]:
    """The added tokens that are found in texts."""
    return [token for token in document.get("added_tokens") or () if not token.get("special")]


def _is_known(step: Part) -> bool:
    match step.get("type"):
        case "ByteLevel":
            return not step.get("add_prefix_space")
        case "Split":
            return _matches_all(step)
        case kind:
            return kind == "Digits"


def _matches_all(step: Part) -> bool:
    if step.get("type") == "ByteLevel":
        return step.get("use_regex") is not False
    isolated = step.get("behavior") == "Isolated" and not step.get("invert")
    return isolated and (step.get("pattern") or {}).get("Regex") in _MATCH_ALL


def _looks_around(token: Part) -> bool:
    """Whether an added token could span a cut, or be found only where the text around it allows it."""
    return bool(token.get("lstrip") or token.get("rstrip") or token.get("single_word")) or is_cut(token["content"])


def _spells_all_bytes(model: Part, splits: list[Part]) -> bool:
    vocabulary = model.get("vocab")
    if model.get("type") != "BPE" or not isinstance(vocabulary, Mapping):
        return False
    return (_is_byte_level(splits) and set(LETTER_OF_BYTE.values()) <= vocabulary.keys()) or (
        bool(model.get("byte_fallback")) and vocabulary.keys() >= _ALL_BYTES
    )


def _is_byte_level(splits: list[Part]) -> bool:
    return any(step.get("type") == "ByteLevel" for step in splits)


def _only_composes(change: Part) -> bool:
    kind = change.get("type")
    blanks = kind == "Replace" and (change.get("pattern") or {}).get("String") == " " and change.get("content") == "▁"
    return blanks or kind in _COMPOSING or kind == "Prepend"


def _removes(step: Part) -> bool:
    return step.get("type") not in ("ByteLevel", "Digits", "Metaspace", "Split") or step.get("behavior") == "Removed"


def hf_tokenizer(text: str) -> TableTokenizer:
    """The tokenizer that the text of a `tokenizer.json` describes.

    Added tokens flagged special are controls, and so are those that look like tags (``<think>``, ``<tool_call>``):
    templates build structure with them. Other added tokens, and normalisers, work as in the library.

    Errors: `TokenError`, code ``vocabulary_malformed``.
    """
    require("tokenizers", "hf", "a tokenizer.json")
    parts = _parts(text)
    document = _document(parts)
    controls, texts = _added(document)
    spelling = _spelling(document)
    # The library finds added tokens in any text, but special ones only on demand: so all controls are special.
    unknown = _unknown(document["model"])
    added = [
        {**token, "special": Control(token["content"]) in controls or token["content"] == unknown}
        for token in document.get("added_tokens") or ()
    ]
    whole: Mapping[str, object] = {**parts, "added_tokens": added}
    library = _library(whole)
    begun = beginning(document)
    inner = None if begun is None else _library({**whole, **begun.without})

    def bytes_of(id: int) -> bytes:
        if id in texts:
            return texts[id].encode()
        token = library.id_to_token(id)
        return b"" if token is None else spelling(token)

    cut = cut_of(document)
    encode = text_only(in_slices(lambda text: library_ids(library, text), cut), controls)
    following = None if inner is None else text_only(in_slices(lambda text: library_ids(inner, text), cut), controls)
    size = _size(document)
    name = f"hf/{hashlib.sha256(utf8(text)).hexdigest()[:16]}"
    shrinks = shrinking(document)

    def ordinary() -> set[int]:
        return set(range(size)) - set(controls.values())

    return TableTokenizer(
        name,
        size,
        controls=controls,
        bytes_of=bytes_of,
        encode=encode,
        following=following,
        begins_once=begun is not None and begun.once,
        strips=_strips(document),
        fewest=None if shrinks is None else Fewest(lambda: map(bytes_of, ordinary()), shrinks=shrinks),
        in_words=cut is between_matches,
    )


def _library(parts: Mapping[str, object]) -> Tokenizer:
    # Here and not above, so that importing the room stays light: the library costs tens of milliseconds.
    from tokenizers import Tokenizer

    try:
        library = Tokenizer.from_buffer(msgspec.json.encode(parts))
    except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
        raise TokenError(f"the tokenizer cannot be read: {error}", code="vocabulary_malformed") from None
    library.encode_special_tokens = True
    library.no_truncation()
    library.no_padding()
    return library


def _parts(text: str) -> dict[str, msgspec.Raw]:
    """The parts as they are spelled: most of a file is its vocabulary, which the library reads by itself."""
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise TokenError(
            "the tokenizer is not a JSON object", code="vocabulary_malformed", position=_place(text)
        ) from None


def _place(text: str) -> Position | None:
    """The place at which a text stops being JSON."""
    try:
        json.loads(text)
    except ValueError as error:
        return Position(offset=getattr(error, "pos", None))
    return None


def _document(parts: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """All but the model's merges, which nothing here depends on."""
    try:
        model = msgspec.json.decode(parts.get("model", b""), type=dict[str, msgspec.Raw])
        read = {key: msgspec.json.decode(part) for key, part in model.items() if key != "merges"}
        return {key: msgspec.json.decode(part) for key, part in parts.items() if key != "model"} | {"model": read}
    except msgspec.DecodeError:
        raise TokenError(
            "the tokenizer has no model", code="vocabulary_malformed", position=Position(path="model")
        ) from None


def _size(document: Mapping[str, Any]) -> int:
    """One more than the greatest id; the ids of a list are its places."""
    vocabulary = document["model"].get("vocab") or ()
    ids = vocabulary.values() if isinstance(vocabulary, Mapping) else range(len(vocabulary))
    added = (token["id"] for token in document.get("added_tokens") or ())
    return 1 + max(max(ids, default=-1), max(added, default=-1))


def _added(document: Mapping[str, Any]) -> tuple[dict[Control, int], dict[int, str]]:
    """The added tokens that are controls, and those that are text."""
    unknown = _unknown(document["model"])
    controls: dict[Control, int] = {}
    texts: dict[int, str] = {}
    for i, token in enumerate(document.get("added_tokens") or ()):
        match token:
            case {"content": str(spelling)} if spelling == unknown:
                pass  # What the vocabulary cannot spell is text all the same.
            case {"id": int(id), "content": str(spelling)} if token.get("special") or is_structure(spelling):
                controls.setdefault(Control(spelling), id)
            case {"id": int(id), "content": str(spelling)}:
                texts[id] = spelling
            case _:
                where = Position(path=f"added_tokens[{i}]")
                raise TokenError("an added token has no id or content", code="vocabulary_malformed", position=where)
    return controls, texts


def _unknown(model: Mapping[str, Any]) -> str | None:
    """The token for all that cannot be spelled; None where everything can."""
    vocabulary = model.get("vocab")
    if model.get("byte_fallback") or (model.get("type") == "BPE" and LETTER_OF_BYTE[0] in (vocabulary or ())):
        return None
    id = model.get("unk_id")
    if isinstance(id, int) and isinstance(vocabulary, list) and id < len(vocabulary):
        return str(vocabulary[id][0])
    token = model.get("unk_token")
    return token if isinstance(token, str) else None


_STRIPPED = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Characters that the library takes for blanks."""


def _strips(document: Mapping[str, Any]) -> dict[Control, Strip]:
    """The controls that take blanks away from the texts beside them."""
    found = {}
    for token in document.get("added_tokens") or ():
        left, right = token.get("lstrip"), token.get("rstrip")
        if (left or right) and (token.get("special") or is_structure(token["content"])):
            found[Control(token["content"])] = Strip(_STRIPPED if left else "", _STRIPPED if right else "")
    return found


def _spelling(document: Mapping[str, Any]) -> Callable[[str], bytes]:
    """How the tokens spell bytes: byte-level, SentencePiece, parts of words, or as they are."""
    kinds = {kind for part in ("decoder", "pre_tokenizer") for kind in _kinds(document.get(part))}
    model, decoder = document["model"], document.get("decoder") or {}
    if "ByteLevel" in kinds:
        return bytes_of_letters
    if kinds & {"Metaspace", "ByteFallback"}:
        return sentencepiece_bytes
    if model.get("type") == "WordPiece":
        prefix = model.get("continuing_subword_prefix") or "##"
        return lambda token: token.removeprefix(prefix).encode() if token.startswith(prefix) else f" {token}".encode()
    if suffix := model.get("end_of_word_suffix") or decoder.get("suffix"):
        return lambda token: token.replace(suffix, " ").encode()
    if model.get("type") == "WordLevel":
        return lambda token: f" {token}".encode()
    return sentencepiece_bytes


def _kinds(part: Any) -> list[str]:
    if not isinstance(part, dict):
        return []
    inner = [kind for key in ("decoders", "pretokenizers") for one in part.get(key) or () for kind in _kinds(one)]
    return [str(part.get("type")), *inner]
