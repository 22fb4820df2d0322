"""Kinds of engines: their settings in the configuration, and how they become an engine that runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

if TYPE_CHECKING:  # who reads a configuration opens no engine
    from antiphon.tokens import Control, Tokenizer

    from .engine import Engine
    from .gguf_file import GgufValue


DEFAULT_CONTEXT = 4096
"""Tokens of one sequence, for a model of which nobody says how many it may have."""

Task = Literal["chat", "embed", "rank"]
CHAT: frozenset[Task] = frozenset({"chat"})
ANY_TASK: frozenset[Task] = frozenset({"chat", "embed", "rank"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The model that an engine is opened for, as far as the configuration and the model's files describe it.

    ``path`` is the model's file and ``metadata`` that of a GGUF file, both for engines that need a file. ``context`` is
    in tokens for one sequence and ``slots`` are replies at once; None: the engine's own choice. ``threads`` 0: too.
    ``share_cache``: owners may find each other's prompts in a cache.
    ``end_ids`` are the model's own end tokens, where its files name them. ``controls`` and ``stops`` are the format's.
    ``environ`` has the secrets that settings name by variable.
    """

    name: str
    tokenizer: Tokenizer
    task: Task = "chat"
    path: Path | None = None
    metadata: Mapping[str, GgufValue] = field(default_factory=dict)
    context: int | None = None
    slots: int | None = None
    threads: int = 0
    share_cache: bool = False
    end_ids: frozenset[int] = frozenset()
    controls: Collection[Control] = ()
    stops: Sequence[Control | str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A kind of engine: a subclass has its settings as fields, its name as ``tag``, and opens it.

    ``needs_file``: it runs a model file of this machine, and is unloaded when its memory is needed. ``remote``: it
    is a server that runs already; it is reconnected after a loss, and ``streams`` replies are requested of it at once
    where the model's ``slots`` say no other number. ``needs_tokenizer``: the model's table must name its
    vocabulary; otherwise that of the file, or single bytes, will do. ``truncates``: a model of which nobody recommends
    how it is sampled is sampled from its likely tokens (resolution X-54); otherwise nothing is cut off. ``tasks`` are
    what it can be configured for, and ``paths`` the settings that are paths, which a configuration file means relative
    to itself.
    """

    needs_file: ClassVar[bool] = False
    needs_tokenizer: ClassVar[bool] = False
    remote: ClassVar[bool] = False
    truncates: ClassVar[bool] = False
    streams: ClassVar[int] = 0
    tasks: ClassVar[frozenset[Task]] = CHAT
    paths: ClassVar[frozenset[str]] = frozenset()

    @property
    def kind(self) -> str:
        """The name by which a configuration knows it."""
        return kind_name(type(self))

    @property
    def address(self) -> str:
        """The server's address, for people; empty for an engine on this machine."""
        return ""

    @property
    def sees(self) -> bool:
        """Whether its models see images, as far as the settings say."""
        return False

    def fault(self) -> tuple[str, str] | None:
        """(setting, why it cannot be meant); None where all can."""
        return None

    def memory(self, model: ModelSpec) -> int:
        """Bytes that the engine will take for this model; called only where it needs a file."""
        return 0

    async def open(self, model: ModelSpec) -> Engine:
        """The engine, ready to generate.

        Errors: `ModelError` for a model that cannot be run, `ConfigError` for settings that cannot be used,
        `OverloadedError` where a server does not answer.
        """
        raise NotImplementedError


def kind_name(settings: type[EngineSettings]) -> str:
    """The kind of a settings class."""
    return str(settings.__struct_config__.tag)
