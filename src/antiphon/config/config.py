"""The whole configuration, table by table."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from antiphon.errors import ConfigError, Position

from .limits import Count, CountOrNone, LeaseSeconds, Limits, Seconds, SecondsOrNone
from .model_table import alias_fault, shipped_entries
from .models import Entries, ModelEntry, folder_entries

# The table ``[batches]``: files that clients upload, and the batches that run from them. Sizes in bytes.


class BatchesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``enabled``: this server has files and batches, and runs those in its store that no other server runs.

    A file has at most ``max_file`` bytes, and the files of one key, those that batches write included, ``quota`` bytes
    before an upload is refused; of one key there are at most ``max_files`` files and ``max_batches`` batches that have
    not ended. The input of a batch has at most ``max_lines``. A file is deleted ``lifetime`` seconds after it was made
    unless its maker says when.
    """

    enabled: bool = True
    max_file: Count = 200 * 2**20
    quota: Count = 2**30
    max_files: Count = 2000
    max_lines: Count = 50_000
    max_batches: Count = 100
    lifetime: Seconds = 30 * 24 * 3600.0


# The table ``[dialect]``: what the plain routes speak.


class DialectConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``name`` is what the plain routes speak; ``strict`` restricts every dialect to the letter of its document.

    The next two are MindIE's ``maxSeqLen`` and ``maxIterTimes``, in tokens; ``endpoint_mode`` and whether its
    endpoints stream where a request does not say (None: where ``strict``) are Databricks'.
    """

    name: Literal["openai", "databricks", "mindie", "lmdeploy"] = "openai"
    strict: bool = False
    max_seq_len: int = 2560
    max_iter_times: int = 512
    endpoint_mode: Literal["any", "pay_per_token", "provisioned"] = "any"
    endpoint_streams: bool | None = None


# The table ``[engine]``: what all embedded models share.


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For every embedded model that does not say otherwise. 0: the engine's own choice.

    ``fallback_format`` is for files without a chat template; empty, such a model is refused. ``idle_unload``, in
    seconds: a model that was not used for so long is unloaded until it is requested again (0: it stays).
    ``memory_mib`` is what all of them may have together; the one that is longest unused makes room (0: no limit).
    ``share_cache`` lets the requests of one API key find in a cache what those of another left: quicker where keys
    share long prompts, and each can find out what the others sent. ``open`` false opens no engine at all: models are
    rendered for, and their replies are read.
    """

    context: CountOrNone = 0
    slots: Count = 4
    threads: CountOrNone = 0
    fallback_format: str = "chatml"
    idle_unload: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    memory_mib: Annotated[int, msgspec.Meta(ge=0)] = 0
    share_cache: bool = False
    open: bool = True


# The table ``[log]``.


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``access``: a line a request. ``file`` "" is standard error; one that was moved away is opened anew."""

    form: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = True
    file: str = ""


# The table ``[ray]``: what `antiphon.ray` deploys. Times in seconds.

Share = Annotated[float, msgspec.Meta(ge=0)]
Requests = Annotated[float, msgspec.Meta(gt=0)]


class RayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``replicas`` answer requests, each with ``cpus``; up to ``max_replicas`` while each has more than ``ongoing``
    requests (0: always the same number). The keys with ``engine_`` say the same of each model's engine where it has
    replicas of its own (`antiphon.ray:two_tier`), and ``engine_gather`` how long these gather ids for one message.

    Replicas are added after ``scale_out_after`` and removed after ``scale_in_after``. One that is to leave may end what
    it does: turns take ``longest_turn`` at most, or ``limits.turn_timeout`` where that is set.
    """

    replicas: Count = 1
    max_replicas: CountOrNone = 0
    ongoing: Requests = 32.0
    cpus: Share = 1.0
    engine_replicas: Count = 1
    engine_max_replicas: CountOrNone = 0
    engine_ongoing: Requests = 8.0
    engine_cpus: Share = 1.0
    engine_gpus: Share = 0.0
    engine_gather: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.015
    scale_out_after: SecondsOrNone = 30.0
    scale_in_after: SecondsOrNone = 600.0
    longest_turn: Seconds = 600.0


# The table ``[server]``. Sizes in bytes, times in seconds.


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``drain``, in seconds, is what running requests get when the server stops.

    ``keys`` is a file of `antiphon keys`; where it exists, every request needs one of its keys. ``without_keys`` lets
    a server listen beyond this machine though it has none. ``public_metrics`` shows ``/metrics`` to all, and
    ``expose_reasoning`` what models think. ``tls_cert`` and
    ``tls_key`` are PEM files. ``origins``: the web pages, between commas, that may call it from a browser besides its
    own; ``*`` stands for a host, the beginning of one, a port, or for every page.
    ``hosts``: the names, between commas, by which a server without keys may be called besides those of this machine.
    ``wires``: further APIs, between commas, by the names that installed packages give them. ``ollama`` listens at
    127.0.0.1 on ``ollama_port`` too, where the clients of Ollama look for it. ``gather``: seconds between two writes of
    one stream, or up to a quarter more, so that streams are written together; what is sampled in between is sent as
    one. ``workers`` processes answer at the one port; they share the embedded engines, and the limits hold over all of
    them. ``fetch``: images and texts that requests name by public addresses are fetched. ``playground``: browsers get
    a page at ``/`` and ``/playground``. ``docs``: the documentation under ``/docs``.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080
    drain: SecondsOrNone = 30.0
    keys: str = ""
    without_keys: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    origins: str = ""
    hosts: str = ""
    public_metrics: bool = False
    expose_reasoning: bool = False
    wires: str = ""
    ollama: bool = False
    ollama_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 11434
    gather: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01
    workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    fetch: bool = False
    playground: bool = True
    docs: bool = True


# The table ``[sessions]``: what is stored between requests.


class SessionsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``store`` is a file for sessions, responses, conversations and chat completions, or "memory", which a restart
    empties, or ``NAME:…`` for a store of another package.

    ``lifetime`` is what a session has after its last turn, in seconds. Of several servers over one store, one at a time
    works on a session, a conversation or a batch; when nothing was heard of it for ``lease`` seconds, another may.

    What the model wrote in a turn of chat completions that waits for the results of its calls, hidden reasoning
    included, is stored for ``turn_lifetime`` seconds (0: not at all), and so are the ids of turns, for prompts that
    go on with them: at most ``turn_bytes`` of one turn, and by each server the latest ``turns_per_key`` of each key.
    Events of answers are stored before they are sent, so that another server can send them again and go on with the
    answer where this one dies: those of all streamed responses, of chats whose clients request it, and of responses in
    the background (``events`` is "streams"), of the latter alone ("background"), or of none; not in memory. They are
    stored for ``event_lifetime`` seconds after the last.
    """

    store: str = ""
    lifetime: float = 7 * 24 * 3600.0
    lease: LeaseSeconds = 15.0
    events: Literal["streams", "background", "none"] = "streams"
    event_lifetime: Seconds = 3600.0
    turn_lifetime: SecondsOrNone = 3600.0
    turn_bytes: Count = 256 * 2**10
    turns_per_key: Count = 1000


# The table ``[store]``: the files of models.


class ModelFilesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``folder`` is where model files are."""

    folder: str = ""


# The table ``[tools]``: tools that run here.


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that run here: ``names`` (browser, python, Python files) are separated by commas; ``mcp`` is a file.

    ``offer``: models get them in every request, requested or not. ``pages``: a folder for the browser instead of our
    own pages; ``web``: the web instead, searched at the SearxNG address ``search``. ``packages``: what code may import.

    ``mcp_sessions`` with one MCP server are open at once, one a key; what a key did not use for ``mcp_idle_timeout``
    seconds is closed. ``mcp_tokens`` is the folder of the tokens by which we are signed in to MCP servers.

    ``client_mcp``: requests of the Responses API may name MCP servers of their own, at public addresses and in the
    networks of ``client_mcp_networks`` (``10.1.0.0/16``, separated by commas).
    """

    names: str = ""
    mcp: str = ""
    mcp_sessions: Count = 8
    mcp_idle_timeout: Seconds = 600.0
    mcp_tokens: str = ""
    client_mcp: bool = False
    client_mcp_networks: str = ""
    offer: bool = False
    pages: str = ""
    web: bool = False
    search: str = ""
    packages: str = ""


# The table ``[traces]``.


class TracesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``endpoint`` is the OTLP/HTTP address of an OpenTelemetry collector; empty: no spans are made."""

    endpoint: str = ""
    service: str = "antiphon"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a file, the environment and flags. ``models`` are the entries of the ``[models.NAME]`` tables.

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
            hint = "A table [models.NAME] of that name changes what the name means; an alias cannot."
            raise ConfigError(f"{where}: {taken[1]}", position=Position(path=where), hint=hint)

    @property
    def entries(self) -> Entries:
        """The models of the file, and those that ship with the package; a table changes only what it says."""
        taken = {*self.models, *(alias for entry in self.models.values() for alias in entry.aliases)}
        shipped = {
            name: msgspec.structs.replace(entry, aliases=tuple(a for a in entry.aliases if a not in taken))
            for name, entry in shipped_entries().items()
            if name not in self.models
        }
        return {**({} if self.engine.open else folder_entries(self.model)), **self.models, **shipped}
