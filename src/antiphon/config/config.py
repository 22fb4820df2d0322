"""The configuration: defaults, then the TOML file, then the environment, then flags; each value knows its origin."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs

from antiphon.errors import ConfigError, Position, near
from antiphon.store import MEMORY, store_name

from .entries import O200K, Catalogue, ModelEntry, builtin_catalogue
from .server import Limits, LogConfig, ServerConfig, TracesConfig

PREFIX = "ANTIPHON_"
HOME, FILE = "ANTIPHON_HOME", "ANTIPHON_CONFIG"
NOT_KEYS = frozenset({HOME, FILE, "ANTIPHON_CORPORA", "ANTIPHON_TEST_MODEL"})
"""Variables with our prefix that are no key of the configuration: two say where it is, two are for the tests."""


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where model files are kept."""

    folder: str = ""


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For every embedded model that does not say otherwise. 0: the engine's own choice.

    ``fallback_format`` is for files without a chat template; empty, such a model is refused. ``idle_unload``, in
    seconds: a model that nobody used for so long leaves the memory until it is asked for again (0: it stays).
    ``memory_mib`` is what all of them may have together; the one that is longest unused makes room (0: no limit).
    """

    context: int = 0
    slots: int = 4
    threads: int = 0
    fallback_format: str = "chatml"
    idle_unload: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    memory_mib: Annotated[int, msgspec.Meta(ge=0)] = 0


class SessionsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``store`` is a file for sessions, responses and conversations, or "memory", which a restart empties, or
    ``NAME:…`` for a store of another package.

    ``lifetime`` is what a session has after its last turn, in seconds.
    """

    store: str = ""
    lifetime: float = 7 * 24 * 3600.0


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that run here: ``names`` (browser, python, Python files) stand between commas; ``mcp`` is a file.

    ``offer``: models get them in every request, asked for or not. ``pages``: a folder for the browser instead of our
    own pages; ``web``: the web instead, searched at the SearxNG address ``search``. ``packages``: what code may import.
    """

    names: str = ""
    mcp: str = ""
    offer: bool = False
    pages: str = ""
    web: bool = False
    search: str = ""
    packages: str = ""


class DialectConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``name`` is what the plain routes speak; ``strict`` holds every dialect to the letter of its document.

    The next two are MindIE's ``maxSeqLen`` and ``maxIterTimes``, in tokens; ``endpoint_mode`` and whether its
    endpoints stream where a request does not say are Databricks'.
    """

    name: Literal["openai", "databricks", "mindie", "lmdeploy"] = "openai"
    strict: bool = False
    max_seq_len: int = 2560
    max_iter_times: int = 512
    endpoint_mode: Literal["any", "pay_per_token", "provisioned"] = "any"
    endpoint_streams: bool = True


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. ``models`` are the entries of the file's ``[models.NAME]`` tables.

    ``embedding_model`` answers requests for embeddings that name none, and is fetched by the first; empty: none does.
    """

    model: str = "smollm2"
    embedding_model: str = "minilm"
    format: str | None = None
    chat_template: str | None = None
    store: StoreConfig = StoreConfig()
    engine: EngineConfig = EngineConfig()
    server: ServerConfig = ServerConfig()
    limits: Limits = Limits()
    log: LogConfig = LogConfig()
    traces: TracesConfig = TracesConfig()
    sessions: SessionsConfig = SessionsConfig()
    tools: ToolsConfig = ToolsConfig()
    dialect: DialectConfig = DialectConfig()
    models: dict[str, ModelEntry] = {}

    def __post_init__(self) -> None:
        for name, entry in self.models.items():
            if fault := entry.fault():
                raise ValueError(f"models.{name}: {fault}")

    @property
    def catalogue(self) -> Catalogue:
        """The models that ship with the package, and those of the file; a table changes only what it says."""
        return {**builtin_catalogue(), **self.models}


Key = tuple[str, ...]
"""A path of tables: ``("server", "port")``. People read it with dots."""

NO_PATHS = frozenset({MEMORY, O200K, ""})
"""What may stand where a path stands."""

PATHS = frozenset(
    "chat_template source folder keys store mcp pages packages key_file tokenizer file tls_cert tls_key".split()
)
"""A file's relative paths are relative to the file."""


@dataclass(frozen=True, slots=True)
class Layered:
    """A value and where it came from: ``default``, a file's path, ``environment NAME`` or ``flag --name``."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, the file that it looked for, and the layered value of every key that was given."""

    config: Config
    file: Path
    given: Mapping[Key, Layered]

    def rows(self) -> list[tuple[str, Any, str]]:
        """(key, value, origin) of every key."""
        values = flatten(msgspec.to_builtins(self.config))
        keys = [*known_keys(Config), *(key for key in self.given if key[0] == "models")]
        return [(".".join(key), values.get(key), self.origin(key)) for key in keys]

    def origin(self, key: Key) -> str:
        return self.given[key].origin if key in self.given else "default"


def load_config(environ: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> LoadedConfig:
    """The configuration of this process. ``flags`` maps dotted keys to values; None means that a flag was not given.

    Raises `ConfigError` for a file that is no TOML, an unknown key (with the near ones), or a value of another type.
    """
    file = config_file(environ)
    given = {
        **home_layer(environ),
        **file_layer(file, required=bool(environ.get(FILE))),
        **environment_layer(environ),
        **flag_layer(flags or {}),
    }
    return LoadedConfig(convert(given), file, given)


def config_file(environ: Mapping[str, str]) -> Path:
    if named := environ.get(FILE):
        return Path(named).expanduser()
    if home := environ.get(HOME):
        return Path(home).expanduser() / "config.toml"
    return platformdirs.user_config_path("antiphon", appauthor=False) / "config.toml"


def home_layer(environ: Mapping[str, str]) -> dict[Key, Layered]:
    """Where models, keys and sessions are unless something says otherwise: below ANTIPHON_HOME, else in the user's."""
    if home := environ.get(HOME):
        cache = settings = data = Path(home).expanduser().absolute()
        origin = f"environment {HOME}"
    else:
        cache = platformdirs.user_cache_path("antiphon", appauthor=False)
        settings = platformdirs.user_config_path("antiphon", appauthor=False)
        data = platformdirs.user_data_path("antiphon", appauthor=False)
        origin = "default"
    return {
        ("store", "folder"): Layered(str(cache / "models"), origin),
        ("server", "keys"): Layered(str(settings / "keys.json"), origin),
        ("sessions", "store"): Layered(str(data / "sessions.db"), origin),
    }


def file_layer(file: Path, *, required: bool) -> dict[Key, Layered]:
    """The file's values by key; nothing when there is no file and none was asked for."""
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        if required:
            raise ConfigError(f"the configuration {file} does not exist", hint=f"{FILE} names it.") from None
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {file}: {error}") from None
    layer = {}
    for key, value in flatten(table).items():
        check_key(key, str(file))
        layer[key] = Layered(beside(file, key[-1], value) if key[-1] in PATHS else value, str(file))
    return layer


def beside(file: Path, name: str, value: Any) -> Any:
    """A relative path as seen from the configuration file; a source or a store of another kind as it is."""
    if not isinstance(value, str) or value in NO_PATHS or value.startswith(("wheel:", "hf:", "~")):
        return value
    if name == "store" and store_name(value):
        return value
    return str(file.parent.absolute() / value)


def environment_layer(environ: Mapping[str, str]) -> dict[Key, Layered]:
    """Each key but those of models has a variable: ``server.port`` is ``ANTIPHON_SERVER_PORT``."""
    keys = {PREFIX + "_".join(key).upper(): key for key in known_keys(Config)}
    layer = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name in NOT_KEYS:
            continue
        if name not in keys:
            raise ConfigError(f"unknown environment variable {name}", code="unknown_key", hint=near(name, keys))
        layer[keys[name]] = Layered(text, f"environment {name}")
    return layer


def flag_layer(flags: Mapping[str, Any]) -> dict[Key, Layered]:
    layer = {}
    for dotted, value in flags.items():
        if value is not None:
            key = tuple(dotted.split("."))
            layer[key] = Layered(value, f"flag --{key[-1].replace('_', '-')}")
    return layer


def convert(given: Mapping[Key, Layered]) -> Config:
    """The typed configuration. Text is read as the key's type, because an environment has nothing but text."""
    named = {key[1] for key in given if key[0] == "models"}
    known = {name: entry for name, entry in builtin_catalogue().items() if name in named}
    tree: dict[str, Any] = {"models": msgspec.to_builtins(known)}
    for key, layered in given.items():
        table = tree
        for name in key[:-1]:
            table = table.setdefault(name, {})
        table[key[-1]] = layered.value
    try:
        return msgspec.convert(tree, Config, strict=False)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        dotted = where.rstrip("`")
        origin = next((layered.origin for key, layered in given.items() if ".".join(key) == dotted), "")
        raise ConfigError(
            f"{dotted or 'configuration'}: {message}" + (f" ({origin})" if origin else ""),
            position=Position(path=dotted) if dotted else None,
        ) from None


def known_keys(struct: type[msgspec.Struct]) -> list[Key]:
    """Every key of a table, in the order of its class; the free names of ``models`` have none."""
    keys: list[Key] = []
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            keys += [(field.name, *inner) for inner in known_keys(field.type)]
        elif field.name != "models":
            keys.append((field.name,))
    return keys


def check_key(key: Key, where: str) -> None:
    """`ConfigError` with near names, unless ``key`` is one that a file may have."""
    own, struct = (key[2:], ModelEntry) if key[0] == "models" and len(key) > 2 else (key, Config)
    known = known_keys(struct)
    if own not in known:
        raise ConfigError(
            f"unknown key {'.'.join(key)!r} in {where}",
            code="unknown_key",
            hint=near(".".join(own), [".".join(name) for name in known]),
        )


def flatten(table: Mapping[str, Any], above: Key = ()) -> dict[Key, Any]:
    """Nested tables as one: ``{"server": {"port": 1}}`` is ``{("server", "port"): 1}``."""
    flat: dict[Key, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, (*above, name))
        else:
            flat[(*above, name)] = value
    return flat
