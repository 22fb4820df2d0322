"""Strings on which tokenizers differ: digits, runs of blanks, emoji, scripts, marks, control characters, surrogates."""

from __future__ import annotations

import random
from collections.abc import Iterator

TEXT = """
The quick brown fox don't we've I'm THEY'LL It'S naïve façade straße Größe привет Здравствуйте 你好世界 こんにちは
カタカナ 한국어 שלום مرحبا हिन्दी ไทย 12345 3.14159 1,000,000 0x1F4A9 ½ ² ٣٤٥ Ⅷ def return x==y;
// # $ % ^ & * ( ) _ + ~ ` { } [ ] | \\ : ; " ' < > ? , . / … — “quoted” <|im_start|> <|im_end|> <|endoftext|>
<think> </think> [INST] http://example.com/a?b=c&d=e user@host.org
"""
WORDS = TEXT.split()
_BLANKS = "||  |   |        |\n|\n\n|\r\n|\t|\t\t|\u00a0|\u2003|\u3000|\u200b|\u2028|\x85|\x0b|\x0c| \n|\n |  \n  | "
BLANKS = _BLANKS.split("|")
EMOJI = "😀😂👍🏽👩‍👩‍👧‍👦🇫🇷🏳️‍🌈❤️☃️𝔘𝓃𝒾𝒸ℴ𝒹ℯ"
_PARTS = "'s 'S 're 'LL ! ?~ 12 345 中文 ーァ é À ǅ ʰ \u093c क ０１ ～ ß Ω 𝐀 𐐀 ` ~ $ | ( ) \u0964 e\u0301"
PARTS = [*_PARTS.split(), " ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2003"]
SINGLES = " a1\n=-é中!\t\x04"
RANGES = (
    (0x20, 0x7F),
    (0x20, 0x7F),
    (0x00, 0x20),
    (0x80, 0x3000),
    (0x3000, 0xD800),
    (0xD800, 0xE000),
    (0xE000, 0x10000),
    (0x10000, 0x1FB00),
    (0x10000, 0x110000),
)


def varied_strings(count: int, seed: int = 0) -> Iterator[str]:
    """``count`` strings of five kinds, the same for one seed."""
    choose = random.Random(seed)
    kinds = (_text, _characters, _mixture, _run, _parts)
    for i in range(count):
        yield kinds[i % len(kinds)](choose)


def _text(choose: random.Random) -> str:
    return "".join(choose.choice(WORDS) + choose.choice(BLANKS) for _ in range(choose.randrange(1, 20)))


def _characters(choose: random.Random) -> str:
    return "".join(_character(choose) for _ in range(choose.randrange(1, 20)))


def _mixture(choose: random.Random) -> str:
    def one() -> str:
        digits = str(choose.randrange(10 ** choose.randrange(1, 20)))
        return choose.choice(
            [choose.choice(WORDS), choose.choice(BLANKS), _character(choose), choose.choice(EMOJI), digits]
        )

    return "".join(one() for _ in range(choose.randrange(1, 15)))


def _run(choose: random.Random) -> str:
    return choose.choice(SINGLES) * choose.randrange(1, 80) + choose.choice(("", "x", " ", "1"))


def _parts(choose: random.Random) -> str:
    return "".join(choose.choice(PARTS) for _ in range(choose.randrange(1, 14)))


def _character(choose: random.Random) -> str:
    return chr(choose.randrange(*choose.choice(RANGES)))
