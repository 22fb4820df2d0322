"""Prints what was measured as `docs/internals/measured/vocabularies.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "internals" / "measured" / "vocabularies.md"
RESULTS, FUZZ = HERE / "results.json", HERE / "fuzz.json"
_HEAD = """\
# Vocabularies that were tried

Real vocabularies, taken out of packages that ship them, each beside its reference: how many texts of every script,
random characters, blanks at edges and controls spelled out got other ids than there. `make vocabularies` makes the list
anew. [Tokens](../../tokens.md) says how each kind is encoded.

Here no text becomes a control. Some references make one of text that spells it: llama.cpp of `<think>`, of gpt-oss's
`<|channel|>` and of what merges come to, `tokenizers` of added tokens that are not special. They read a copy of the
vocabulary in which our controls are special or have other names, so that no text is left out.
"""
_KOREAN = """\
WordPiece of lower case (bert-bge) is that of `transformers`, on which the models were trained. llama.cpp leaves of a
Korean syllable its first letter only, drops the vowel signs of Indic scripts, and takes control characters such as
U+000B and U+0085 for blanks.

A Unigram (nepali sentencepiece) has controls among its pieces: `tokenizers` makes `<s>` one in any text, which here is
cut inside it.
"""
_FUZZ = """\
## A million texts

Each kind of vocabulary that our own tables cover, beside the engine's own tokenizer (`make fuzz-vocabularies`). The
byte-level rows have merges learnt without a look at words, so that every place where a text is split shows in the ids.
"""


def page() -> str:
    rows, fuzzed = json.loads(RESULTS.read_text("utf-8")), json.loads(FUZZ.read_text("utf-8"))
    return "\n".join((_HEAD, *_listed(rows), "", _KOREAN, _FUZZ, *_fuzzed(fuzzed), ""))


def _listed(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = {row["name"] for row in rows}
    compared = sum(row["texts"] for row in rows)
    yield f"{len(names)} vocabularies, {len(rows)} comparisons, {compared:,} texts.\n"
    yield "| vocabulary | tokens | reference | here by | texts | other ids |"
    yield "|---|--:|---|---|--:|--:|"
    for row in rows:
        yield (
            f"| {row['name']} | {row['tokens']:,} | {row['reference']} | {row['road']} | {row['texts']:,} "
            f"| {row['different']} |"
        )


def _fuzzed(rows: list[dict[str, Any]]) -> Iterator[str]:
    texts, size, other = (sum(row[key] for row in rows) for key in ("texts", "bytes", "different"))
    yield f"{texts:,} texts, {size / 1e6:.1f} MB, {other} with other ids.\n"
    yield "| kind | texts | bytes | other ids |"
    yield "|---|--:|--:|--:|"
    for row in rows:
        yield f"| {row['kind']} | {row['texts']:,} | {row['bytes']:,} | {row['different']} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
