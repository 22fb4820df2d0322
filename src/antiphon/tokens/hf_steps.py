"""What a `tokenizer.json` says of long texts: where they may be cut, and whether a text can lose bytes on its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .bytelevel import LETTER_OF_BYTE
from .slices import Cut, between_matches, is_cut, nowhere

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
    """How a text begins; None: as it stands."""
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
    return between_matches if cuts and not any(map(_looks_around, _added(document))) else nowhere


def shrinking(document: Part) -> int | None:
    """By how many times a text may be shortened on its way to its tokens; None: nothing is known of that."""
    splits = _steps(document, "pre_tokenizer", "pretokenizers")
    changes = _steps(document, "normalizer", "normalizers")
    if not _spells_all_bytes(document["model"], splits) or not all(map(_only_composes, changes)):
        return None
    if any(token.get("lstrip") or token.get("rstrip") for token in _added(document)) or any(map(_removes, splits)):
        return None
    return 1 if _is_byte_level(splits) and not changes else _COMPOSES


def _steps(document: Part, name: str, several: str) -> list[Part]:
    part = document.get(name) or {}
    if part.get("type") == "Sequence":
        return [step for inner in part.get(several) or () for step in _steps({name: inner}, name, several)]
    return [part] if part else []


def _added(document: Part) -> list[Part]:
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
