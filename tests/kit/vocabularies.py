"""Small vocabularies of the kinds that GGUF files have, with what differs between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from antiphon.tokens import Tokenizer, well_formed
from antiphon.tokens.bytelevel import LETTER_OF_BYTE
from antiphon.tokens.gguf import TokenType
from kit.strings import BLANKS, TEXT, varied_strings

CONTROLS = ("<unk>", "<s>", "</s>")


def sentencepiece(
    *, pieces: Sequence[str] = (), added: Mapping[str, int] | None = None, **settings: object
) -> dict[str, object]:
    """Three controls, the bytes, the characters and some beginnings of words of `TEXT`, and ``added`` with their types.

    Many scores are equal, and longer pieces are better or worse than their parts.
    """
    words = sorted({f"▁{word}"[:length] for word in TEXT.split() for length in range(1, len(word) + 2)})
    runs = ["▁" * count for count in (2, 4, 8)] + ["aa", "aaa", "aaaa", "==", "===", "11", "12", "ab", "ba", "\n\n"]
    characters = sorted({char for char in TEXT + "ab" if not char.isspace()} - {"ß", "你", "é"})
    ordinary = list(dict.fromkeys(("▁", "\n", *characters, *words, *runs, *pieces)))
    added = added or {}
    scores = [-float((len(piece) * 7919 + i * 31) % 97) for i, piece in enumerate(ordinary)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [*CONTROLS, *(f"<0x{byte:02X}>" for byte in range(256)), *ordinary, *added],
        "tokenizer.ggml.scores": [0.0] * 259 + scores + [-1000.0] * len(added),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(ordinary) + list(added.values()),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **{f"tokenizer.ggml.{key}": value for key, value in settings.items()},
    }


EDGES = tuple(f"{before}{text}{after}" for text in ("a", "▁", "") for before in BLANKS for after in BLANKS)
"""Texts with blanks of every kind around them."""


def byte_level(pre: str, *, merges: int = 3_000, seed: int = 5) -> dict[str, object]:
    """All bytes, and merges learnt from varied strings without a look at words, so that each split shows in the ids."""
    model = _learnt(merges, seed)
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [*tokens, *CONTROLS],
        "tokenizer.ggml.token_type": [1] * len(tokens) + [3] * 3,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": len(tokens) + 1,
        "tokenizer.ggml.eos_token_id": len(tokens) + 2,
    }


@cache
def _learnt(merges: int, seed: int) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges, initial_alphabet=list(LETTER_OF_BYTE.values()), show_progress=False
    )
    texts = [" " * 9_000, *map(well_formed, varied_strings(2_500, seed=seed))]  # Long runs of blanks are tokens too.
    library.train_from_iterator(texts, trainer)
    return json.loads(library.to_str())["model"]


def with_controls(metadata: Mapping[str, object], *spellings: str) -> dict[str, object]:
    """The vocabulary and more controls behind its tokens."""
    lists = {key: metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type")}
    more: dict[str, list[object]] = {"tokens": list(spellings), "token_type": [3] * len(spellings)}
    if "tokenizer.ggml.scores" in metadata:
        lists["scores"], more["scores"] = metadata["tokenizer.ggml.scores"], [0.0] * len(spellings)
    longer = {}
    for key, value in lists.items():
        assert isinstance(value, list)
        longer[f"tokenizer.ggml.{key}"] = [*value, *more[key]]
    return {**metadata, **longer}


def controls_renamed(metadata: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, object]:
    """The vocabulary with other names for all that is a control of ``tokenizer``, so that no text spells one.

    The engine makes controls of some texts: of `<think>` where it is user-defined, and of what its merges come to.
    """
    tokens, types = (list(metadata[f"tokenizer.ggml.{key}"]) for key in ("tokens", "token_type"))
    for id in tokenizer.controls.values():
        tokens[id], types[id] = f"[control {id}]", TokenType.CONTROL
    # By the name of a model the engine looks for controls.
    return {**metadata, "general.name": None, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}


def character_pairs(*, merges: int = 1_500, seed: int = 5) -> dict[str, object]:
    """Gemma 4's kind: merges of characters over whole lines, with blanks spelled, and bytes for other characters."""
    from tokenizers import Tokenizer, models, trainers

    library = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=400 + merges, limit_alphabet=400, show_progress=False)
    # llama.cpp reads the tokens of a file up to a zero.
    lines = (well_formed(text).replace(" ", "▁").replace("\0", "") for text in varied_strings(2_500, seed=seed))
    library.train_from_iterator(lines, trainer)
    model = json.loads(library.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    tokens = [*CONTROLS, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces, "\n\n\n\n"]
    return {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": list(dict.fromkeys(tokens)),
        "tokenizer.ggml.token_type": ([2, 3, 3] + [6] * 256 + [1] * len(tokens))[: len(dict.fromkeys(tokens))],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
