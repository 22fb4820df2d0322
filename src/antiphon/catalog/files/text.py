"""Text of a model as its files describe it: its vocabulary, its chat template, its special tokens and its ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from antiphon.config import O200K
from antiphon.engines.gguf_file import GgufValue, is_gguf, read_gguf_metadata
from antiphon.errors import ModelError, TokenError
from antiphon.formats import NO_OPINION, SamplingDefaults
from antiphon.formats.raw import FillInMiddle, RawFormat
from antiphon.tokens import (
    FIM_ROLES,
    ByteTokenizer,
    Control,
    Tokenizer,
    engine_tokenizer,
    gguf_tokenizer,
    hf_tokenizer,
    o200k_harmony,
    sentencepiece_tokenizer,
    tekken_tokenizer,
)

TOKENIZER_FILE = "tokenizer.json"
TEKKEN_FILE = "tekken.json"
SENTENCEPIECE_FILE = "tokenizer.model"
SETTINGS_FILE = "tokenizer_config.json"
MATRYOSHKA = "antiphon.matryoshka_dimensions"
"""The key of a GGUF file with the sizes to which its embeddings may be cut: its authors' `matryoshka_dimensions`."""
RESPONSE_TEMPLATE = "response_template"
"""The key of the tokenizer's settings that says how the model writes its replies, and the name of a file of its own."""


class ResponseTemplate(msgspec.Struct, frozen=True):
    """How a model writes its replies, by its files: the JSON value as it is, and the ``place`` that has it."""

    spec: object
    place: str


class ModelText(msgspec.Struct, frozen=True, kw_only=True):
    """``special`` are the spellings of ``bos_token``, ``eos_token`` …, as Jinja templates know them.

    ``responses``: what the files say of the model's replies, ``sampling`` of how it is sampled. ``infill``: how it
    fills in the middle of a text. ``sentences`` frames a text that is embedded, and ``dimensions`` are its embedding's,
    where the files have it; ``shorter`` are the sizes to which that may be cut. ``pair_frame``: tokens around two texts
    that are read as one; None: the files do not say. ``by_engine``: texts are encoded by the engine's own call, for
    the vocabulary has no exact tables here. ``begin`` begins each text of its own (``add_bos_token``).
    """

    tokenizer: Tokenizer
    template: str | None = None
    responses: ResponseTemplate | None = None
    special: Mapping[str, str] = msgspec.field(default_factory=dict)
    sampling: SamplingDefaults = NO_OPINION
    end_ids: frozenset[int] = frozenset()
    infill: FillInMiddle | None = None
    sentences: RawFormat | None = None
    dimensions: int = 0
    shorter: tuple[int, ...] = ()
    pair_frame: int | None = None
    by_engine: bool = False
    begin: Control | None = None


def read_model_text(source: str) -> ModelText:
    """Reads a GGUF file, a Hugging Face folder or the file in it that has its vocabulary, or ``o200k_harmony``.

    Builds a vocabulary, so it takes a moment. Errors: `ModelError`, for files that cannot be read and
    kinds of vocabularies that are not covered.
    """
    if source == O200K:
        tokenizer = o200k_harmony()
        ends = (tokenizer.control_id(Control(name)) for name in ("<|return|>", "<|call|>", "<|endoftext|>"))
        return ModelText(tokenizer=tokenizer, end_ids=frozenset(id for id in ends if id is not None))
    path = Path(source).expanduser()
    try:
        if path.suffix == ".gguf" or (path.is_file() and is_gguf(path)):  # Ollama calls its files by their digests
            return gguf_text(read_gguf_metadata(path))
        return folder_text(path if path.is_dir() else path.parent)
    except TokenError as error:
        raise ModelError(f"{path.name}: {error.message}", code=error.code) from None
    except OSError as error:
        hint = f"Name a GGUF file, a folder with a {TOKENIZER_FILE} or {SENTENCEPIECE_FILE}, or {O200K}."
        raise ModelError(f"no tokenizer at {path}: {error.strerror}", code="tokenizer_not_here", hint=hint) from None


def gguf_text(metadata: Mapping[str, GgufValue]) -> ModelText:
    """Reads a GGUF file's metadata. Raises `TokenError` for a vocabulary that is not covered."""
    tokenizer, by_engine = _tokenizer(metadata)
    template, tokens = metadata.get("tokenizer.chat_template"), metadata.get("tokenizer.ggml.tokens")
    ids = {
        role: metadata.get(f"tokenizer.ggml.{role}_token_id") for role in ("bos", "eos", "eot", "unknown", "padding")
    }
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    size = metadata.get(f"{metadata.get('general.architecture')}.embedding_length")
    shorter = metadata.get(MATRYOSHKA)
    begin, end = _frame(metadata, tokenizer)
    return ModelText(
        tokenizer=tokenizer,
        template=template if isinstance(template, str) and template.strip() else None,
        special={
            f"{names[role]}_token": str(tokens[id])
            for role, id in ids.items()
            if role in names and isinstance(tokens, list) and isinstance(id, int) and 0 <= id < len(tokens)
        },
        sampling=_sampling(metadata, GGUF_SAMPLING),
        end_ids=frozenset(id for role in ("eos", "eot") if isinstance(id := ids[role], int)),
        infill=_infill(tokenizer, metadata),
        sentences=RawFormat(tokenizer.controls.keys(), begin=[begin] if begin else [], end=[end] if end else []),
        dimensions=size if isinstance(size, int) else 0,
        shorter=tuple(one for one in shorter if isinstance(one, int)) if isinstance(shorter, list) else (),
        pair_frame=_pair_frame(metadata),
        by_engine=by_engine,
        begin=begin,
    )


def _tokenizer(metadata: Mapping[str, GgufValue]) -> tuple[Tokenizer, bool]:
    """Our own tables where they are exact, else the engine's own call, and whether it is that."""
    try:
        return gguf_tokenizer(metadata), False
    except TokenError as error:
        if error.code != "vocabulary_not_covered":
            raise
    # Few vocabularies need it: it starts a process.
    from antiphon.engines.llama_cpp.vocabulary import EngineVocabulary

    return engine_tokenizer(metadata, EngineVocabulary(metadata)), True


_INFILL = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<repo_name>", "<file_sep>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)
"""The marks of fill-in-the-middle in the order of `FIM_ROLES`, as vocabularies spell them that name no roles."""


def _infill(tokenizer: Tokenizer, metadata: Mapping[str, GgufValue] | None = None) -> FillInMiddle | None:
    """The marks of a model that fills in the middle, as its GGUF file names them, else by one of their spellings.

    None where one of the three is missing.
    """
    ids = {role: (metadata or {}).get(f"tokenizer.ggml.{role}_token_id") for role in FIM_ROLES}
    pieces = {role: tokenizer.piece(id) for role, id in ids.items() if isinstance(id, int) and id < tokenizer.size}
    named = {role: piece for role, piece in pieces.items() if isinstance(piece, Control)}
    rows = [named] if named else [dict(zip(FIM_ROLES, map(Control, row), strict=False)) for row in _INFILL]
    for row in rows:
        marks = {role: mark for role, mark in row.items() if tokenizer.control_id(mark) is not None}
        prefix, suffix, middle = (marks.get(role) for role in FIM_ROLES[:3])
        if prefix is not None and suffix is not None and middle is not None:
            ends = tuple(mark for role, mark in marks.items() if role not in FIM_ROLES[:3])
            return FillInMiddle(prefix, suffix, middle, ends, marks.get("fim_rep"), marks.get("fim_sep"))
    return None


_ADDED_BY_KIND: Mapping[object, frozenset[str]] = {
    "llama": frozenset(("bos",)),
    "bert": frozenset(("bos", "eos")),
    "t5": frozenset(("eos",)),
    "gemma4": frozenset(("bos",)),
}
_ADDED_BY_PRE = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
"""Controls that llama.cpp puts around a text where the file does not say: by kind, and names that begin so."""
_IDS_BY_KIND: Mapping[tuple[object, str], int] = {("llama", "bos"): 1, ("llama", "eos"): 2, ("t5", "eos"): 1}


def _frame(metadata: Mapping[str, GgufValue], tokenizer: Tokenizer) -> list[Control | None]:
    """The two controls that are put before and behind a text; None: none is.

    Of BERT's kind they are [CLS] and [SEP], of others what the file says to add.
    """
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    usual = frozenset(("bos",)) if kind == "gpt2" and pre in _ADDED_BY_PRE else _ADDED_BY_KIND.get(kind, frozenset())
    frame: list[Control | None] = []
    for role in ("bos", "eos"):
        id = metadata.get(f"tokenizer.ggml.{role}_token_id", _IDS_BY_KIND.get((kind, role)))
        piece = tokenizer.piece(id) if isinstance(id, int) else b""
        added = metadata.get(f"tokenizer.ggml.add_{role}_token", role in usual)
        frame.append(piece if isinstance(piece, Control) and added else None)
    return frame


def _pair_frame(metadata: Mapping[str, GgufValue]) -> int:
    """Tokens before, between and behind a query and a document, as llama.cpp frames them: B query E S document E."""
    bert = metadata.get("tokenizer.ggml.model") == "bert"
    separated = bert or metadata.get("tokenizer.ggml.pre") in ("jina-v1-en", "jina-v2-code", "roberta-bpe")
    kind = metadata.get("tokenizer.ggml.model")
    usual = {"bos": bert or kind == "llama", "eos": kind == "t5", "sep": separated}
    adds = {role: bool(metadata.get(f"tokenizer.ggml.add_{role}_token", value)) for role, value in usual.items()}
    return adds["bos"] + 2 * adds["eos"] + adds["sep"]


def folder_text(folder: Path) -> ModelText:
    """Reads a Hugging Face folder; all its files but its vocabulary may be missing. Raises `OSError`, `TokenError`."""
    settings, generation = _json(folder / SETTINGS_FILE), _json(folder / "generation_config.json")
    tokenizer = _folder_tokenizer(folder, settings)
    special = _special(settings)
    eos = generation.get("eos_token_id")
    ends = {id for id in (eos if isinstance(eos, list) else [eos]) if isinstance(id, int)}
    named = tokenizer.control_id(Control(special["eos_token"])) if "eos_token" in special else None
    sampling = _sampling(generation, GENERATION)
    if generation.get("do_sample") is False:  # which means the likeliest token
        sampling = replace(sampling, temperature=0.0)
    return ModelText(
        tokenizer=tokenizer,
        template=_template(folder, settings.get("chat_template")),
        responses=_responses(folder, settings),
        special=special,
        sampling=sampling,
        end_ids=frozenset(ends if named is None else ends | {named}),
        infill=_infill(tokenizer),
    )


def _folder_tokenizer(folder: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """The vocabulary of a folder's ``tokenizer.json``, else of its ``tekken.json``, else of its ``tokenizer.model``."""
    if not (folder / TOKENIZER_FILE).exists():
        if (folder / TEKKEN_FILE).is_file():
            return tekken_tokenizer((folder / TEKKEN_FILE).read_bytes())
        if (folder / SENTENCEPIECE_FILE).is_file():
            return sentencepiece_tokenizer((folder / SENTENCEPIECE_FILE).read_bytes(), _added(folder, settings))
    return hf_tokenizer((folder / TOKENIZER_FILE).read_bytes().decode("utf-8"))


def _added(folder: Path, settings: Mapping[str, Any]) -> dict[int, tuple[str, bool]]:
    """The tokens that a folder adds to those of its ``tokenizer.model``, in its settings or in a file of their own."""
    found = {id: (name, True) for name, id in _json(folder / "added_tokens.json").items() if isinstance(id, int)}
    described = settings.get("added_tokens_decoder")
    for id, token in described.items() if isinstance(described, dict) else ():
        spelling = _spelling(token)
        if spelling is not None and id.isdecimal():
            found[int(id)] = spelling, isinstance(token, dict) and bool(token.get("special"))
    return found


def template_text(folder: Path) -> ModelText:
    """Reads a folder that need not have a vocabulary: its templates, and single bytes beside the tokens that it names.

    Raises `ModelError`, `OSError` and `TokenError`.
    """
    if any((folder / name).is_file() for name in (TOKENIZER_FILE, TEKKEN_FILE, SENTENCEPIECE_FILE)):
        return folder_text(folder)
    settings = _json(folder / SETTINGS_FILE)
    special = _special(settings)
    added = settings.get("added_tokens_decoder")
    named = [_spelling(token) for token in (added.values() if isinstance(added, dict) else ())]
    return ModelText(
        tokenizer=ByteTokenizer(spelled for spelled in (*special.values(), *named) if spelled),
        template=_template(folder, settings.get("chat_template")),
        responses=_responses(folder, settings),
        special=special,
    )


def _special(settings: Mapping[str, Any]) -> dict[str, str]:
    roles = ("bos_token", "eos_token", "unk_token", "pad_token")
    return {role: spelled for role in roles if (spelled := _spelling(settings.get(role)))}


def _responses(folder: Path, settings: Mapping[str, Any]) -> ResponseTemplate | None:
    """The response template: of the tokenizer's settings, else a file of its own."""
    if settings.get(RESPONSE_TEMPLATE) is not None:
        return ResponseTemplate(settings[RESPONSE_TEMPLATE], f"{folder / SETTINGS_FILE}: {RESPONSE_TEMPLATE}")
    alone = folder / f"{RESPONSE_TEMPLATE}.json"
    return ResponseTemplate(_value(alone), str(alone)) if alone.is_file() else None


def _template(folder: Path, setting: Any) -> str | None:
    """The chat template: a file of its own in newer folders, else the settings' text, or the default of its list."""
    alone = folder / "chat_template.jinja"
    if alone.is_file():
        return alone.read_text("utf-8")
    if isinstance(setting, list):
        setting = next((one.get("template") for one in setting if one.get("name") == "default"), None)
    return setting if isinstance(setting, str) and setting.strip() else None


def _spelling(token: Any) -> str | None:
    """A special token, which older folders describe as a table."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


GGUF_SAMPLING = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_p": "top_p",
    "general.sampling.top_k": "top_k",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}
GENERATION = {name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
"""Keys of the settings that a model's authors recommend: in a GGUF file, and in a folder's `generation_config.json`."""


def _sampling(values: Mapping[str, Any], keys: Mapping[str, str]) -> SamplingDefaults:
    """The defaults that files recommend, as they have them; a value that is no number is left out."""
    found = {name: values.get(key) for key, name in keys.items()}
    numbers = {
        name: value
        for name, value in found.items()
        if isinstance(value, int if name == "top_k" else int | float) and not isinstance(value, bool)
    }
    return SamplingDefaults(**numbers)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = _value(path)
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _value(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}", code="tokenizer_malformed") from None
