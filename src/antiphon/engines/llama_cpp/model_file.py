"""Facts of a GGUF file, read before it is loaded: enough to refuse what cannot run, and its split characters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from antiphon.engines.gguf_file import GgufValue, read_gguf_metadata, read_gguf_tensors
from antiphon.errors import ModelError, TokenError
from antiphon.tokens import engine_tokenizer

from .settings import LlamaCppSettings
from .wire import Fragments

_OVERHEAD = 64 * 2**20
"""Bytes that any model needs besides its weights and its cache; deliberately low."""
_MOST_SCORES = 256 * 2**20
"""Bytes of attention scores that are worth the time that they save."""


class ModelFile(msgspec.Struct, frozen=True):
    """A model file before it is loaded. ``size`` is in bytes."""

    path: Path
    size: int
    metadata: Mapping[str, GgufValue]

    def cache_bytes(self) -> int:
        """Bytes of key-value cache for one token at 16 bits; half of it where some layers look back only so far."""
        heads = self._value("attention.head_count_kv") or self._number("attention.head_count")
        layers = self._number("block_count")
        total = sum(h for h in heads if isinstance(h, int)) if isinstance(heads, list) else layers * _int(heads)
        default = self._number("embedding_length") // max(1, self._number("attention.head_count"))
        width = sum(self._number(f"attention.{side}_length") or default for side in ("key", "value"))
        return total * width * 2 // (2 if self._number("attention.sliding_window") else 1)

    def scores_bytes(self, settings: LlamaCppSettings) -> int:
        """Bytes of the attention scores of one batch over a full context, at 32 bits, where they are stored whole."""
        heads = self._value("attention.head_count")
        most = max(map(_int, heads), default=0) if isinstance(heads, list) else _int(heads)
        return settings.context * settings.batch * most * 4

    def flash_attention(self, settings: LlamaCppSettings) -> bool:
        """Whether attention is computed in one go, without its scores in memory.

        On a processor that makes a short prompt after a long history (a session's next turn) half as fast again, and
        tokens after one slower, too; so not there, unless the scores would take much memory. A GPU decides by itself.
        """
        on_processor = not settings.gpu_layers and not settings.embeddings
        return not on_processor or self.scores_bytes(settings) > _MOST_SCORES

    def needs(self, settings: LlamaCppSettings) -> int:
        """The least memory, in bytes, with which the model can run as ``settings`` say."""
        cache = 0 if settings.embeddings else self.cache_bytes() * settings.context * settings.slots
        scores = 0 if self.flash_attention(settings) else self.scores_bytes(settings)
        projector = settings.projector
        sees = projector.stat().st_size if projector is not None and projector.is_file() else 0
        return self.size + sees + cache + scores + _OVERHEAD

    def ranking_fault(self) -> str | None:
        """Why it cannot rank documents; None for a file that can. llama.cpp would score by whatever it finds."""
        labels = self._value("classifier.output_labels")
        if isinstance(labels, list) and len(labels) > 1:
            return f"it sorts texts into {len(labels)} classes"
        if "tokenizer.chat_template.rerank" in self.metadata:
            return "its pairs are written by a template, in which a text that spells a control would be one"
        if not any(name.startswith("cls.") for name in read_gguf_tensors(self.path)):
            return "it has no head that scores a pair of texts"
        return None

    def fragments(self) -> Fragments:
        """The vocabulary's parts of characters; none for a kind of vocabulary that we cannot spell."""
        try:
            return Fragments.of(engine_tokenizer(self.metadata, lambda text: []))
        except TokenError:
            return Fragments(())

    def _value(self, key: str) -> GgufValue | None:
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}")

    def _number(self, key: str) -> int:
        return _int(self._value(key))


def read_model_file(path: Path) -> ModelFile:
    """Reads the facts of ``path``. Raises ModelError where no such file is, it is not GGUF, or its header is cut."""
    if not path.is_file():
        raise ModelError(f"there is no model file {path}", code="model_not_found")
    return ModelFile(path, path.stat().st_size, read_gguf_metadata(path))


def check_ranking(file: ModelFile, settings: LlamaCppSettings) -> None:
    """ModelError for a model that is to rank and cannot."""
    fault = file.ranking_fault() if settings.ranks else None
    if fault is not None:
        hint = 'Take a cross-encoder with one score, or say task = "embed".'
        raise ModelError(f"{file.path.name} cannot rank: {fault}", code="not_a_ranker", hint=hint)


def check_memory(file: ModelFile, settings: LlamaCppSettings, free: int | None) -> None:
    """ModelError when it certainly cannot fit in ``free`` bytes; None is not known."""
    need = file.needs(settings)
    if free is None or settings.gpu_layers or need <= free:
        return
    raise ModelError(
        f"{file.path.name} needs at least {need / 2**20:.0f} MiB of memory and {free / 2**20:.0f} MiB are free",
        code="model_memory",
        hint=f"Lower context ({settings.context}) or slots ({settings.slots}), or take a smaller model.",
    )


def _int(value: GgufValue | None) -> int:
    return int(value) if isinstance(value, int | float) else 0
