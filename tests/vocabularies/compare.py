"""Real vocabularies, each beside its reference over texts of every script: `make vocabularies`.

Prints and stores a row for each: which road it takes, how many texts and bytes, and how many got other ids.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from antiphon.catalog.files.text import gguf_text
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary
from antiphon.tokens import Tokenizer, hf_tokenizer, sentencepiece_tokenizer, tekken_tokenizer, well_formed
from antiphon.tokens.sentencepiece_model import read_sentencepiece
from kit.strings import varied_strings
from kit.token_engine import engine_tokenizer_of
from kit.vocabularies import EDGES, controls_renamed
from vocabularies.fetching import FOLDER, file_of
from vocabularies.sources import SOURCES, Source

Encode = Callable[[str], list[int]]
TEXTS = int(os.environ.get("TEXTS", "1000"))
RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    wanted = re.compile(os.environ.get("ONLY", ""))
    rows = {row["name"] + row["reference"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    failed = []
    for source in SOURCES:
        if not wanted.search(source.name):
            continue
        try:
            for row in compared(source):
                rows[row["name"] + row["reference"]] = row
                print(*row.values(), sep="\t", flush=True)
        except Exception as error:  # noqa: BLE001 - the others shall be tried
            failed.append(source.name)
            print(source.name, "FAILED", type(error).__name__, str(error)[:200], sep="\t", flush=True)
        RESULTS.write_text(json.dumps(list(rows.values()), indent=1, ensure_ascii=False) + "\n")
    if failed:
        sys.exit(f"not fetched, or refused here: {', '.join(failed)}")


def compared(source: Source) -> Iterator[dict[str, Any]]:
    """A row for each reference of a vocabulary."""
    data = file_of(source)
    for reference, road, ours, theirs in pairs(source, data):
        with theirs as encode:
            yield row_of(source, reference, road, ours, encode)


def row_of(source: Source, reference: str, road: str, ours: Tokenizer, theirs: Encode) -> dict[str, Any]:
    controls = set(ours.controls.values())
    spelled = [f"a{control.spelling}b {control.spelling}" for control in list(ours.controls)[:40]]
    texts = [*varied_strings(TEXTS, seed=11), *EDGES[:200], *spelled]
    different, begun = [], time.perf_counter()
    for text in texts:
        ids = ours.encode(text)
        assert controls.isdisjoint(ids), text
        if ids != theirs(text):
            different.append(text)
    for text in sorted(different, key=len)[:2]:
        print("   ", ascii(text)[:90], ours.encode(text)[:12], theirs(text)[:12], file=sys.stderr)
    return {
        "name": source.name,
        "package": source.package,
        "reference": reference,
        "tokens": ours.size,
        "road": road,
        "texts": len(texts),
        "bytes": sum(len(text.encode("utf-8", "replace")) for text in texts),
        "different": len(different),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def pairs(source: Source, data: bytes) -> Iterator[tuple[str, str, Tokenizer, Any]]:
    """Reference, road, our tokenizer and a context that gives the reference's encoder."""
    match source.kind:
        case "gguf":
            metadata = read_gguf_metadata(_stored("vocabulary.gguf", data))
            yield by_engine(metadata)
            if metadata["tokenizer.ggml.model"] == "bert":
                yield "tokenizers", "own tables", gguf_text(metadata).tokenizer, _library(wordpieces(metadata))
        case "json":
            ours = hf_tokenizer(data.decode())
            yield "tokenizers", "library", ours, _library(marked(json.loads(data), ours))
            if source.pre is not None:
                yield by_engine(gguf_of_json(json.loads(data), source.pre))
        case "spm":
            from sentencepiece import SentencePieceProcessor

            model = SentencePieceProcessor(model_proto=data)
            read = read_sentencepiece(data)
            road = "own tables" if read.merges and read.plain else "library"
            yield "sentencepiece", road, sentencepiece_tokenizer(data), _given(lambda text: list(model.encode(text)))
            if source.pre is not None:
                yield by_engine(gguf_of_pieces(read.pieces, read.scores, read.types, begins=read.begins))
        case "tekken":
            from mistral_common.tokens.tokenizers.tekken import (  # type: ignore[import-not-found]  # of the target alone
                Tekkenizer,
            )

            mistral = Tekkenizer.from_file(_stored("tekken.json", data))
            encode = _given(lambda text: mistral.encode(text, bos=False, eos=False))
            yield "mistral-common", "library", tekken_tokenizer(data), encode
        case "rwkv":
            yield by_engine(gguf_of_rwkv(data.decode()))


def by_engine(metadata: Mapping[str, Any]) -> tuple[str, str, Tokenizer, Any]:
    text = gguf_text(metadata)
    road = "the engine's call" if text.by_engine else "own tables"
    return "llama.cpp", road, text.tokenizer, _engine(controls_renamed(metadata, text.tokenizer))


def marked(document: dict[str, Any], ours: Tokenizer) -> str:
    """The `tokenizer.json` in which what is a control here is special."""
    controls = set(ours.controls.values())
    for token in document["added_tokens"]:
        token["special"] = token["special"] or token["id"] in controls
    return json.dumps(document)


@contextmanager
def _engine(metadata: Mapping[str, Any]) -> Iterator[Encode]:
    path = FOLDER / "model.gguf"
    write_vocabulary(path, metadata)
    with engine_tokenizer_of(path) as engine:
        yield engine.tokenize


def _library(document: str) -> AbstractContextManager[Encode]:
    from tokenizers import Tokenizer as Library

    library = Library.from_str(document)
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True
    return _given(lambda text: list(library.encode(text, add_special_tokens=False).ids))


def _given(encode: Encode) -> AbstractContextManager[Encode]:
    return nullcontext(lambda text: encode(well_formed(text)))


def _stored(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def wordpieces(metadata: Mapping[str, Any]) -> str:
    """The library's own `tokenizer.json` of BERT's lower case, over the pieces as llama.cpp's converter found them."""
    from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

    tokens = enumerate(metadata["tokenizer.ggml.tokens"])
    found = {
        token if token[0] + token[-1] == "[]" else token[1:] if token[0] == "▁" else f"##{token}": id
        for id, token in reversed(list(tokens))
    }
    return str(BertWordPieceTokenizer(found).to_str())


def gguf_of_json(document: Mapping[str, Any], pre: str) -> dict[str, Any]:
    """What llama.cpp's converter makes of a `tokenizer.json`."""
    vocabulary = document["model"]["vocab"]
    added = {token["id"]: token for token in document["added_tokens"]}
    size = 1 + max([*vocabulary.values(), *added])
    tokens = [f"[PAD{id}]" for id in range(size)]
    types = [5] * size
    for token, id in vocabulary.items():
        tokens[id], types[id] = token, 1
        if pre == "spm" and re.fullmatch("<0x[0-9A-F]{2}>", token):
            types[id] = 6
    for id, token in added.items():
        tokens[id], types[id] = token["content"], 3 if token["special"] else 4
    if pre == "spm":
        scores = [-1000.0 if type != 1 else -float(id) for id, type in enumerate(types)]
        begins = '"Prepend"' in json.dumps(document.get("normalizer")) or "Metaspace" in json.dumps(
            document.get("pre_tokenizer")
        )
        return gguf_of_pieces(tokens, scores, types, begins=begins)
    merges = document["model"]["merges"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
    }


def gguf_of_pieces(tokens: list[str], scores: list[float], types: list[int], *, begins: bool) -> dict[str, Any]:
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.add_space_prefix": begins,
    }


def gguf_of_rwkv(lines: str) -> dict[str, Any]:
    """Each line has an id, a Python literal of text or bytes, and a length."""
    import ast

    tokens = ["<s>"]
    for line in lines.splitlines():
        literal = ast.literal_eval(line[line.index(" ") + 1 : line.rindex(" ")])
        data = literal.encode() if isinstance(literal, str) else literal
        # As llama.cpp's converter spells them: ASCII and escapes.
        tokens.append(repr(data)[2:-1] if b"'" not in data else repr(data + b'"')[2:-2])
    return {
        "tokenizer.ggml.model": "rwkv",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] + [1] * (len(tokens) - 1),
        "tokenizer.ggml.eos_token_id": 0,
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main()
