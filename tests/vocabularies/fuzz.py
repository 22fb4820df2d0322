"""Texts of every script, random bytes, blanks at edges and controls spelled out, beside the engine's ids for each kind
of vocabulary that our own tables cover: `make fuzz-vocabularies`. `TEXTS` for each kind, drawn by `SEED`, in `SECONDS`
for each at most.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary
from antiphon.tokens import TableTokenizer, gguf_tokenizer
from antiphon.tokens.pretokenizers import PRE_TOKENIZERS
from kit.strings import varied_strings
from kit.token_engine import EngineTokenizer, engine_tokenizer_of
from kit.vocabularies import EDGES, byte_level, character_pairs, controls_renamed, sentencepiece
from vocabularies.fetching import FOLDER, file_of
from vocabularies.sources import SOURCES

TEXTS = int(os.environ.get("TEXTS", "25000"))
ONLY = os.environ.get("ONLY", "")
SECONDS = float(os.environ.get("SECONDS", "inf"))
SEED = int(os.environ.get("SEED", "0"))
RESULTS = Path(__file__).with_name("fuzz.json")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rows = {row["kind"]: row for row in json.loads(RESULTS.read_text("utf-8"))} if RESULTS.exists() else {}
    for name, metadata in kinds():
        if not re.search(ONLY, name):
            continue
        rows[name] = row_of(name, metadata)
        print(*rows[name].values(), sep="\t", flush=True)
        RESULTS.write_text(json.dumps(list(rows.values()), indent=1) + "\n")
    texts, other = (sum(row[key] for row in rows.values()) for key in ("texts", "different"))
    print(texts, "texts,", other, "with other ids")


def kinds() -> Iterator[tuple[str, Mapping[str, object]]]:
    yield "SentencePiece", sentencepiece()
    yield "SentencePiece, no blank first", sentencepiece(add_space_prefix=False)
    yield (
        "SentencePiece, user-defined pieces",
        sentencepiece(added={"\n\n\n": 4, "▁▁▁": 4, "<h1>": 4, "  ": 4, "def": 4}),
    )
    yield "SentencePiece, blanks inside pieces", sentencepiece(pieces=["a▁", "a▁b", ">▁", "a▁▁b", "1▁=", "▁▁a▁"])
    yield "SentencePiece, controls within reach", sentencepiece(pieces=["<s", "</", "</s", "x</s>"])
    yield "pairs of characters", character_pairs()
    for source in SOURCES:
        if source.name in ("llama-spm (llama.cpp)", "baichuan (llama.cpp)", "phi-3 (llama.cpp)"):
            path = FOLDER / "vocabulary.gguf"
            path.write_bytes(file_of(source))
            yield source.name, read_gguf_metadata(path)
    learnt = byte_level("default")
    for pre in sorted({splits: name for name, splits in PRE_TOKENIZERS.items()}.values()):
        yield f"byte-level, {pre}", {**learnt, "tokenizer.ggml.pre": pre}


def row_of(name: str, metadata: Mapping[str, object]) -> dict[str, Any]:
    path = FOLDER / "fuzz.gguf"
    tokenizer = gguf_tokenizer(metadata)
    write_vocabulary(path, controls_renamed(metadata, tokenizer))
    begun, different, size, count = time.perf_counter(), 0, 0, 0
    with engine_tokenizer_of(path) as engine:
        drawn = texts_for(tokenizer)
        while (texts := list(islice(drawn, 200))) and (time.perf_counter() - begun < SECONDS):
            different += compared(texts, tokenizer, engine)
            size += sum(len(text.encode("utf-8", "replace")) for text in texts)
            count += len(texts)
    seconds = round(time.perf_counter() - begun, 1)
    return {"kind": name, "texts": count, "bytes": size, "different": different, "seconds": seconds}


def compared(texts: Sequence[str], tokenizer: TableTokenizer, engine: EngineTokenizer) -> int:
    """How many texts got other ids than the engine's."""
    ours = {text: tokenizer.encode(text) for text in texts}
    controls = set(tokenizer.controls.values())
    assert all(controls.isdisjoint(ids) for ids in ours.values())
    wrong = engine.different(ours)
    for text in wrong[:2]:
        print("   ", ascii(text)[:100], flush=True)
    return len(wrong)


def texts_for(tokenizer: TableTokenizer) -> Iterator[str]:
    choose = random.Random(SEED)
    yield from EDGES
    for control in tokenizer.controls:
        yield from (control.spelling, f"a{control.spelling}b", f" {control.spelling} \n")
    for i, text in enumerate(varied_strings(TEXTS, seed=SEED + 100)):
        yield text
        if i % 8 == 0:
            yield choose.randbytes(choose.randrange(1, 60)).decode("utf-8", "replace")
            yield choose.choice(EDGES) + text + choose.choice(EDGES)


if __name__ == "__main__":
    main()
