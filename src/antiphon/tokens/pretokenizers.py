r"""How llama.cpp splits text before it merges bytes, by the name that `tokenizer.ggml.pre` gives.

Each entry is a sequence of patterns for the Oniguruma expressions of `tokenizers`; every match is split off, and what
lies between matches too. The patterns do what the engine does, which is not always what the model's authors wrote: it
knows letters, but their case in ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_UNICODE_16 = (
    r"\x{897}\x{1b4e}-\x{1b4f}\x{1b7f}\x{1c89}-\x{1c8a}\x{2427}-\x{2429}\x{31e4}-\x{31e5}\x{a7cb}-\x{a7cd}"
    r"\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d40}-\x{10d8f}\x{10ec2}-\x{10efc}\x{11380}-\x{113e2}"
    r"\x{116d0}-\x{116e3}\x{11bc0}-\x{11bf9}\x{11f5a}\x{13460}-\x{143fa}\x{16100}-\x{16139}\x{16d40}-\x{16d79}"
    r"\x{18cff}\x{1cc00}-\x{1ceb3}\x{1e5d0}-\x{1e5ff}\x{1f8b2}-\x{1f8c1}\x{1fa89}-\x{1fa8f}\x{1fabe}\x{1fac6}"
    r"\x{1fadc}-\x{1fadf}\x{1fae9}\x{1fbcb}-\x{1fbef}"
)
"""Characters of Unicode 16, which the expressions of `tokenizers` know and the engine does not: it has Unicode 15."""
_CATEGORY = re.compile(r"\\p\{\w+\}")


class PreTokenizer(msgspec.Struct, frozen=True):
    """``splits`` one after the other; ``whole_words``: a split that is a token is not merged from its bytes.

    ``matches_all``: the last one does, though it is not seen at a glance.
    """

    splits: tuple[str, ...]
    whole_words: bool = False
    matches_all: bool = False

    @property
    def expressions(self) -> list[str]:
        """The splits, with the categories of characters that the engine knows."""
        return [_CATEGORY.sub(lambda found: rf"[{found[0]}&&[^{_UNICODE_16}]]", split) for split in self.splits]

    @property
    def gapless(self) -> bool:
        """One of the patterns matches everything, so that no two characters stay together but by a match."""
        return self.matches_all or any(split.endswith(_BLANKS) for split in self.splits)


_CONTRACTION = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_BLANKS = r"\s+(?!\S)|\s+"
_LINES = r"\s*[\r\n]+"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+"

_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_PUNCTUATION}|{_BLANKS}"


def _words(
    digits: str,
    *,
    contraction: str = f"{_CONTRACTION}|",
    word: str = r"[^\r\n\p{L}\p{N}]?\p{L}+",
    rest: str = rf"{_PUNCTUATION}[\r\n]*|{_LINES}",
    blanks: str = _BLANKS,
) -> str:
    return rf"{contraction}{word}|{digits}|{rest}|{blanks}"


def _cased_words(digits: str, *, letter: str = r"\p{L}", contraction: str = f"(?:{_CONTRACTION})?") -> str:
    upper, lower = rf"[{letter}&&[^a-z]]", rf"[{letter}&&[^A-Z]]"
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{upper}*{lower}+{contraction}|{before}{upper}+{lower}*{contraction}"
        rf"|{digits}|{_PUNCTUATION}[\r\n/]*|{_LINES}|{_BLANKS}"
    )


_DIGIT, _THREE_DIGITS, _DIGITS = r"\p{N}", r"\p{N}{1,3}", r"\p{N}+"
_HAN_AND_KANA = r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_WIDE_SCRIPTS = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff&&[^\s]]+"

_single_digits = PreTokenizer((_DIGIT, _GPT2))
_gpt2 = PreTokenizer((_GPT2,))
_llama3 = PreTokenizer((_words(_THREE_DIGITS),), whole_words=True)
_dbrx = PreTokenizer((_words(_THREE_DIGITS),))
_qwen2 = PreTokenizer((_words(_DIGIT),))
_gpt4o = PreTokenizer((_cased_words(_THREE_DIGITS),))
_ASCII_WORD = r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
_deepseek3 = PreTokenizer(
    (
        _THREE_DIGITS,
        _HAN_AND_KANA,
        rf"{_ASCII_WORD}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_LINES}|{_BLANKS}",
    )
)
_bailingmoe = PreTokenizer((_words(_DIGIT, rest=rf"{_PUNCTUATION}[\r\n]*|\s*[\r\n]"),))
_bloom = PreTokenizer((r" ?[^(\s|.,!?…。，、\u0964\u06d4\u060c)]+",))
_HAN = (
    r"\u4e00-\u9fff\u3400-\u4dbf\x{20000}-\x{2a6df}\x{2a700}-\x{2b73f}\x{2b740}-\x{2b81f}"
    r"\x{2b820}-\x{2ceaf}\x{2ceb0}-\x{2ebef}\uf900-\ufaff\x{2f800}-\x{2fa1f}"
)
_deepseek_coder = PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _WIDE_SCRIPTS, _DIGIT))

_OLDER = (
    r"\p{Lu}\p{Ll}\p{Lt}&&[^\u0560-\u0588\u10c6-\u10ff\u1c80-\u1c8f\u2d00-\u2d2f\ua790-\uab6f\x{10000}-\x{10ffff}]",
    r"\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}"
    r"\x{118a0}-\x{118df}\x{1e900}-\x{1e943}",
)
"""Letters with a case, in the blocks that DeepSeek's expression names."""
_deepseek_llm = PreTokenizer(
    (
        r"[\r\n]",
        rf"\s?(?:[{_OLDER[0]}]|[{_OLDER[1]}])+",
        r"\s?[!-/:-~！-／：-～‘-‟\u3001-。]+",
        r"\s+\z",
        _WIDE_SCRIPTS,
        _DIGITS,
    )
)
_youtu = PreTokenizer(
    (
        r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + _HAN_AND_KANA,
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+(?:{_CONTRACTION})?|{_DIGIT}|{_PUNCTUATION}[\r\n/]*|{_LINES}|{_BLANKS}",
    ),
    whole_words=True,
)
_chameleon = PreTokenizer(
    (
        "<sentinel:[0-9]+>",
        "IMGIMG[A-I]{1,4}Z",
        r"[\t\n]|    |  ",
        _DIGIT,
        r"[\p{P}!-/:-@\[-`{-~]",
        _GPT2,
    )
)
_kimi = PreTokenizer(
    (
        rf"[{_HAN}]+|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}&&[^{_HAN}]]+(?:{_CONTRACTION})?"
        rf"|{_THREE_DIGITS}|{_PUNCTUATION}[\r\n]*|{_LINES}|{_BLANKS}",
    )
)

_NAMES: Mapping[PreTokenizer, str] = {
    _single_digits: "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    _gpt2: "gpt-2 phi-2 mpt olmo jais trillion exaone4 gigachat a.x-4.0 mellum granite-docling modern-bert "
    "jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe",
    _llama3: "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5",
    _dbrx: "dbrx smaug-bpe chatglm-bpe",
    _qwen2: "qwen2 deepseek-r1-qwen kormo stablelm2 megrez hunyuan solar-open grok-2 f2llmv2",
    _gpt4o: "gpt-4o llama4 kanana2 minimax-m2 talkie",
    _deepseek3: "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
    _bailingmoe: "bailingmoe bailingmoe2 llada-moe",
    _bloom: "bloom poro-chat gpt3-finnish",
    _deepseek_coder: "deepseek-coder",
    _deepseek_llm: "deepseek-llm",
    _youtu: "youtu",
    _chameleon: "chameleon",
    _kimi: "kimi-k2",
    PreTokenizer(
        (
            _words(
                _DIGIT,
                word=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                rest=rf" ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES}",
            ),
        )
    ): "qwen35",
    PreTokenizer((_words(_DIGIT, rest=rf" ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES}"),)): "seed-coder",
    PreTokenizer((_words(_DIGIT, contraction=""),)): "ufakzeka",
    PreTokenizer((r"[^\n]+|\n+", _words(_DIGIT))): "laguna",
    PreTokenizer((_THREE_DIGITS, _words(_DIGITS)), whole_words=True): "minicpm5",
    PreTokenizer(
        (
            _words(
                _DIGIT,
                word=r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                rest=rf"{_PUNCTUATION}[\r\n/]?|\s*[\r\n]",
            ),
        )
    ): "exaone-moe",
    PreTokenizer(
        (
            _words(
                _THREE_DIGITS,
                contraction=f"'ſ|{_CONTRACTION}|",
                word=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\u200c\u200d]+",
            ),
        )
    ): "k2-horizon",
    PreTokenizer(
        (
            _words(
                _THREE_DIGITS,
                blanks="|".join(
                    (*(rf"\s{{{count}}}(?!\S)" for count in (512, 256, 128, 64, 32, 16, 8, 4)), r"\s{1,2}(?!\S)", r"\s")
                ),
            ),
        ),
        matches_all=True,
    ): "jais-2",
    PreTokenizer((_cased_words(_DIGIT, contraction=""),), whole_words=True): "tekken",
    PreTokenizer((_cased_words(_THREE_DIGITS, letter=r"\p{L}\p{M}"),), whole_words=True): "granite-embed-multi-97m",
    PreTokenizer(
        (
            _THREE_DIGITS,
            _HAN_AND_KANA,
            rf"{_ASCII_WORD}| ?[\p{{P}}\p{{S}}]+|[\r\n]|{_BLANKS}",
            _DIGIT,
        )
    ): "spark2_5",
    PreTokenizer((r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")): "falcon",
    PreTokenizer((r"[\p{P}$+<=>^~|]+", _GPT2, _DIGITS, "[0-9][0-9][0-9]")): "default",
    PreTokenizer((*_bloom.splits, _DIGIT)): "viking",
}

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    name: pre_tokenizer for pre_tokenizer, names in _NAMES.items() for name in names.split()
}
"""By the value of `tokenizer.ggml.pre`. What is not here is not covered exactly."""

WHOLE_LINES = frozenset(("gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe"))
"""Names of byte pairs that are pairs of characters, with blanks as SentencePiece spells them."""
