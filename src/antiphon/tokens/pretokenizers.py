r"""How llama.cpp splits text before it merges bytes, by the name that `tokenizer.ggml.pre` gives.

Each entry is a sequence of patterns for the Oniguruma expressions of `tokenizers`; every match is split off, and what
lies between matches too. The patterns do what the engine does, which is not always what the model's authors wrote: it
knows letters, but their case in ASCII only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class PreTokenizer(msgspec.Struct, frozen=True):
    """``splits`` one after the other; ``whole_words``: a split that is a token is not merged from its bytes."""

    splits: tuple[str, ...]
    whole_words: bool = False

    @property
    def gapless(self) -> bool:
        """One of the patterns matches everything, so that no two characters stay together but by a match."""
        return any(split.endswith(_BLANKS) for split in self.splits)


_CONTRACTION = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_BLANKS = r"\s+(?!\S)|\s+"
_LINES = r"\s*[\r\n]+"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+"

_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_PUNCTUATION}|{_BLANKS}"


def _words(
    digits: str, *, word: str = r"[^\r\n\p{L}\p{N}]?\p{L}+", rest: str = rf"{_PUNCTUATION}[\r\n]*|{_LINES}"
) -> str:
    return rf"{_CONTRACTION}|{word}|{digits}|{rest}|{_BLANKS}"


def _cased_words(digits: str, *, letter: str = r"\p{L}", contraction: str = f"(?:{_CONTRACTION})?") -> str:
    upper, lower = rf"[{letter}&&[^a-z]]", rf"[{letter}&&[^A-Z]]"
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{upper}*{lower}+{contraction}|{before}{upper}+{lower}*{contraction}"
        rf"|{digits}|{_PUNCTUATION}[\r\n/]*|{_LINES}|{_BLANKS}"
    )


_DIGIT, _THREE_DIGITS, _DIGITS = r"\p{N}", r"\p{N}{1,3}", r"\p{N}+"
_HAN_AND_KANA = r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_WIDE_SCRIPTS = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

_single_digits = PreTokenizer((_DIGIT, _GPT2))
_gpt2 = PreTokenizer((_GPT2,))
_llama3 = PreTokenizer((_words(_THREE_DIGITS),), whole_words=True)
_dbrx = PreTokenizer((_words(_THREE_DIGITS),))
_qwen2 = PreTokenizer((_words(_DIGIT),))
_gpt4o = PreTokenizer((_cased_words(_THREE_DIGITS),))
_deepseek3 = PreTokenizer(
    (
        _THREE_DIGITS,
        _HAN_AND_KANA,
        r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_LINES}|{_BLANKS}",
    )
)
_deepseek_coder = PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _WIDE_SCRIPTS, _DIGIT))

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    "smollm": _single_digits,
    "starcoder": _single_digits,
    "refact": _single_digits,
    "command-r": _single_digits,
    "codeshell": _single_digits,
    "exaone": _single_digits,
    "minerva-7b": _single_digits,
    "mellum2": _single_digits,
    "gpt-2": _gpt2,
    "phi-2": _gpt2,
    "mpt": _gpt2,
    "olmo": _gpt2,
    "jais": _gpt2,
    "trillion": _gpt2,
    "exaone4": _gpt2,
    "gigachat": _gpt2,
    "a.x-4.0": _gpt2,
    "mellum": _gpt2,
    "granite-docling": _gpt2,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "llama-v3": _llama3,
    "falcon3": _llama3,
    "falcon-h1": _llama3,
    "pixtral": _llama3,
    "midm-2.0": _llama3,
    "lfm2": _llama3,
    "dbrx": _dbrx,
    "smaug-bpe": _dbrx,
    "glm4": _dbrx,
    "chatglm-bpe": _dbrx,
    "qwen2": _qwen2,
    "deepseek-r1-qwen": _qwen2,
    "kormo": _qwen2,
    "stablelm2": _qwen2,
    "megrez": _qwen2,
    "hunyuan": _qwen2,
    "solar-open": _qwen2,
    "grok-2": _qwen2,
    "qwen35": PreTokenizer(
        (
            _words(
                _DIGIT,
                word=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                rest=rf" ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES}",
            ),
        )
    ),
    "seed-coder": PreTokenizer((_words(_DIGIT, rest=rf" ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES}"),)),
    "bailingmoe": PreTokenizer((_words(_DIGIT, rest=rf"{_PUNCTUATION}[\r\n]*|\s*[\r\n]"),)),
    "bailingmoe2": PreTokenizer((_words(_DIGIT, rest=rf"{_PUNCTUATION}[\r\n]*|\s*[\r\n]"),)),
    "llada-moe": PreTokenizer((_words(_DIGIT, rest=rf"{_PUNCTUATION}[\r\n]*|\s*[\r\n]"),)),
    "minicpm5": PreTokenizer((_THREE_DIGITS, _words(_DIGITS)), whole_words=True),
    "gpt-4o": _gpt4o,
    "llama4": _gpt4o,
    "kanana2": _gpt4o,
    "minimax-m2": _gpt4o,
    "tekken": PreTokenizer((_cased_words(_DIGIT, contraction=""),), whole_words=True),
    "deepseek-v3": _deepseek3,
    "hunyuan-dense": _deepseek3,
    "joyai-llm": _deepseek3,
    "deepseek-coder": _deepseek_coder,
    "falcon": PreTokenizer((r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "default": PreTokenizer((r"[\p{P}$+<=>^~|]+", _GPT2, _DIGITS, "[0-9][0-9][0-9]")),
    "viking": PreTokenizer((r" ?[^(\s|.,!?…。，、\u0964\u06d4\u060c)]+", _DIGIT)),
    "poro-chat": PreTokenizer((r" ?[^(\s|.,!?…。，、\u0964\u06d4\u060c)]+",)),
    "bloom": PreTokenizer((r" ?[^(\s|.,!?…。，、\u0964\u06d4\u060c)]+",)),
    "gpt3-finnish": PreTokenizer((r" ?[^(\s|.,!?…。，、\u0964\u06d4\u060c)]+",)),
}
"""By the value of `tokenizer.ggml.pre`. What is not here is not covered exactly."""
