"""The whole configuration, table by table."""

from __future__ import annotations

import msgspec

from antiphon.errors import ConfigError, Position

from .aliases import alias_fault
from .batches import BatchesConfig
from .dialect import DialectConfig
from .engine import EngineConfig
from .limits import Limits
from .log import LogConfig
from .models import Entries, ModelEntry
from .ray import RayConfig
from .server import ServerConfig
from .sessions import SessionsConfig
from .shipped import shipped_entries
from .store import ModelFilesConfig
from .tools import ToolsConfig
from .traces import TracesConfig


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file, the environment and flags can say. ``models`` are the entries of the ``[models.NAME]`` tables.

    ``embedding_model`` answers requests for embeddings that name none, and is fetched by the first; empty: none does.
    Raises `ConfigError` for an entry that cannot be meant.
    """

    model: str = "smollm2"
    embedding_model: str = "minilm"
    format: str | None = None
    chat_template: str | None = None
    store: ModelFilesConfig = ModelFilesConfig()
    engine: EngineConfig = EngineConfig()
    server: ServerConfig = ServerConfig()
    limits: Limits = Limits()
    log: LogConfig = LogConfig()
    traces: TracesConfig = TracesConfig()
    sessions: SessionsConfig = SessionsConfig()
    batches: BatchesConfig = BatchesConfig()
    tools: ToolsConfig = ToolsConfig()
    dialect: DialectConfig = DialectConfig()
    ray: RayConfig = RayConfig()
    models: dict[str, ModelEntry] = {}

    def __post_init__(self) -> None:
        for name, entry in self.models.items():
            if fault := entry.fault():
                setting, why = fault
                where = f"models.{name}.{setting}"
                raise ConfigError(f"{where}: {why}", position=Position(path=where))
        if taken := alias_fault(self.models, shipped_entries().keys() - self.models.keys()):
            where = f"models.{taken[0]}.aliases"
            raise ConfigError(f"{where}: {taken[1]}", position=Position(path=where))

    @property
    def entries(self) -> Entries:
        """The models of the file, and those that ship with the package; a table changes only what it says."""
        taken = {*self.models, *(alias for entry in self.models.values() for alias in entry.aliases)}
        shipped = {
            name: msgspec.structs.replace(entry, aliases=tuple(a for a in entry.aliases if a not in taken))
            for name, entry in shipped_entries().items()
            if name not in self.models
        }
        return {**self.models, **shipped}
