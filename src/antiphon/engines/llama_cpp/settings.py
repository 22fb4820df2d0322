"""How the embedded engine runs a model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from antiphon.engines.machine import computing_threads
from antiphon.errors import ConfigError

DEFAULT_SLOTS = 4


class Pooling(StrEnum):
    """How an embedding model makes one vector of many; ``rank``: one score of a pair of texts."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"
    RANK = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppSettings:
    """``context`` is in tokens for one sequence; memory for ``slots`` of them is taken at the start.

    ``threads`` 0: one for each core that this process may use. ``cache_mib`` bounds the store of prompts whose
    slot went to another session. ``similarity``: where we know no better slot, a prompt goes on in one that holds this
    share of it already, whatever else the slot holds (0: never). ``memory_limit`` (bytes) None: what the machine has
    free. ``load_seconds`` bounds a start. ``embeddings`` makes it an embedding engine, which does not generate.
    ``share_cache``: a prompt may go on with what another owner's left, which shows each what the other sent.
    ``projector`` is the file by which the model sees images; None: it sees none.
    """

    model: Path
    context: int = 4096
    slots: int = DEFAULT_SLOTS
    threads: int = 0
    gpu_layers: int = 0
    batch: int = 512
    kv_unified: bool = False
    cache_mib: int = 1024
    similarity: float = 0.0
    embeddings: bool = False
    pooling: Pooling = Pooling.MEAN
    memory_limit: int | None = None
    load_seconds: float = 600.0
    share_cache: bool = False
    projector: Path | None = None

    def __post_init__(self) -> None:
        if min(self.context, self.slots, self.batch) < 1 or self.threads < 0 or self.cache_mib < 0:
            raise ConfigError("context, slots and batch are at least 1; threads and cache_mib at least 0")
        if not 0.0 <= self.similarity <= 1.0:
            raise ConfigError("similarity is between 0 and 1")

    @property
    def ranks(self) -> bool:
        """Whether it is an engine that ranks documents, and does nothing else."""
        return self.embeddings and self.pooling is Pooling.RANK

    @property
    def streams(self) -> int:
        """Replies that are open in the engine at once: enough to fill its slots again without a pause."""
        return 2 * self.slots + 2

    def thread_count(self) -> int:
        return self.threads or computing_threads()
