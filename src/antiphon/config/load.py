"""The configuration of a process: defaults, what was measured, the TOML file, the environment, then flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import msgspec
import platformdirs

from antiphon.engines import EngineKinds
from antiphon.engines.machine import usable_cores
from antiphon.engines.registry import NO_KINDS
from antiphon.errors import ConfigError, near, words_of
from antiphon.store import MEMORY, hidden_password, store_name
from antiphon.writing import write

from .config import Config
from .keys import KeyPath, dotted, flatten, known_keys, nest, typed
from .limits import CONCURRENT
from .model_table import (
    catalogue_keys,
    check_keys,
    entry_of,
    merged,
    nested,
    own_names,
    settings_of,
    shipped_tables,
    with_shipped_aliases,
)
from .models import O200K

# Where values of the configuration come from: defaults of this machine, the TOML file, the environment, flags.

PREFIX = "ANTIPHON_"
HOME, FILE = "ANTIPHON_HOME", "ANTIPHON_CONFIG"
"""The variables of the environment that name the folder of everything, and the configuration file."""
NOT_KEYS = frozenset({HOME, FILE, "ANTIPHON_CORPORA", "ANTIPHON_TEST_MODEL"})
"""Variables with our prefix that are no key of the configuration: two say where it is, two are for the tests."""

NO_PATHS = frozenset({MEMORY, O200K, ""})
"""Values that are no path, where a path may be given."""

PATHS = frozenset(
    (
        "chat_template replies source folder keys store mcp mcp_tokens pages packages tokenizer file tls_cert tls_key"
    ).split()
)
"""A file's relative paths are relative to the file. Engines say which of their settings are paths."""


@dataclass(frozen=True, slots=True)
class Layered:
    """A value and where it came from: ``default``, a file's path, ``environment NAME`` or ``flag --name``."""

    value: Any
    origin: str


Layer = dict[KeyPath, Layered]
"""Values of one place, the file or the environment, by their keys, and where exactly each is."""


def config_file(environ: Mapping[str, str]) -> Path:
    """The file that is read, whether it exists or not."""
    if named := environ.get(FILE):
        return Path(named).expanduser()
    if home := environ.get(HOME):
        return Path(home).expanduser() / "config.toml"
    return platformdirs.user_config_path("antiphon", appauthor=False) / "config.toml"


def home_layer(environ: Mapping[str, str]) -> Layer:
    """The folders of models, keys and sessions by default: below ANTIPHON_HOME, else in the user's."""
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
        ("tools", "mcp_tokens"): Layered(str(settings / "mcp-tokens"), origin),
        ("sessions", "store"): Layered(str(data / "sessions.db"), origin),
    }


def file_layer(file: Path, *, required: bool, kinds: EngineKinds = NO_KINDS) -> Layer:
    """The file's values by key; nothing when there is no file and none was named.

    Raises `ConfigError` for a file that is no TOML, an unknown key, or an unknown kind of engine.
    """
    table = _read(file, required=required)
    tables = table.pop("models", {})
    if not isinstance(tables, Mapping):
        raise _unknown(("models",), file)
    for name, table_of_model in tables.items():
        if not isinstance(table_of_model, Mapping):
            raise _unknown(("models", str(name)), file)
    layer: Layer = {}
    for key, value in flatten(table).items():
        if key not in known_keys(Config):
            raise _unknown(key, file)
        layer[key] = Layered(beside(file, key[-1], value) if key[-1] in PATHS else value, str(file))
    for name, model in own_names({name: nested(model) for name, model in tables.items()}).items():
        settings = settings_of(name, merged(shipped_tables().get(name, {}), model), kinds)
        check_keys(name, model, settings, str(file))
        for key, value in flatten(model).items():
            is_path = key[-1] in (settings.paths if key[0] == "engine" else PATHS)
            layer[("models", name, *key)] = Layered(beside(file, key[-1], value) if is_path else value, str(file))
    return layer


def beside(file: Path, name: str, value: Any) -> Any:
    """A relative path as seen from the configuration file; a source or a store of another kind as it is."""
    if not isinstance(value, str) or value in NO_PATHS or value.startswith(("wheel:", "hf:", "~")):
        return value
    if name == "store" and store_name(value):
        return value
    return str(file.parent.absolute() / value)


def environment_layer(environ: Mapping[str, str]) -> Layer:
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


def flag_layer(flags: Mapping[str, Any]) -> Layer:
    """``flags`` maps dotted keys to values; None means that a flag was not given. Raises `ConfigError`: unknown key."""
    layer = {}
    known = known_keys(Config)
    for name, value in flags.items():
        if value is not None:
            key = tuple(name.split("."))
            if key not in known and key[0] != "models":
                raise _unknown(key, "flags")
            layer[key] = Layered(value, f"flag --{key[-1].replace('_', '-')}")
    return layer


GENERAL: Mapping[KeyPath, KeyPath] = {
    ("engine", "context"): ("context",),
    ("engine", "slots"): ("slots",),
    ("engine", "threads"): ("engine", "threads"),
}
"""Keys for all models, and the key of one model's table that is more particular."""


def effective(layers: Iterable[Layer]) -> Layer:
    """The values that count, of layers whose later ones do: also where a later one says for all models what an earlier
    one says for one, or a chat template where an earlier one names a format.

    Raises `ConfigError` for one layer that names both, a format and a chat template.
    """
    given: Layer = {}
    for layer in layers:
        hidden = _hidden(layer, given)
        given = {**{key: value for key, value in given.items() if key not in hidden}, **layer}
    return given


def _hidden(layer: Layer, given: Layer) -> set[KeyPath]:
    """The keys of ``given`` that count no more after ``layer``, which does not have them."""
    speaks: set[KeyPath] = {("format",), ("chat_template",)}
    named = {key for key in speaks & layer.keys() if layer[key].value}
    if named == speaks:
        origins = " and ".join(sorted(layer[key].origin for key in named))
        raise ConfigError(f"a format and a chat_template are named ({origins})", hint="A model speaks one: name one.")
    hidden = speaks - named if named else set()
    for general, particular in GENERAL.items():
        if general in layer:
            hidden |= {key for key in given if key[0] == "models" and key[2:] == particular and _writes(key[1], given)}
    return hidden


def _writes(name: str, given: Layer) -> bool:
    """Whether the model writes replies: what embeds has limits of its own, which no answer needs."""
    task = given.get(("models", name, "task"))
    shipped = shipped_tables().get(name, {})
    return bool((task.value if task else shipped.get("task") or "chat") == "chat")


def _read(file: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        if required:
            beside = [one.name for one in file.parent.glob("*.toml")]
            hint = near(file.name, beside) if beside else f"No .toml file is in {file.parent.absolute()}."
            raise ConfigError(f"the configuration {file} does not exist", hint=hint) from None
        return {}
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {file}: {words_of(error)}") from None


def _unknown(key: KeyPath, place: Path | str) -> ConfigError:
    keys = known_keys(Config)
    elsewhere = [dotted(one) for one in keys if one[-1] in get_close_matches(key[-1], [one[-1]], cutoff=0.7)]
    hint = near(dotted(key), [*map(dotted, keys)])
    if elsewhere and not hint.startswith("Did"):
        hint = f"Did you mean {', '.join(elsewhere)}?"
    return ConfigError(f"unknown key {dotted(key)!r} in {place}", code="unknown_key", hint=hint)


# What `antiphon doctor --tune` measured here: a layer of the configuration, over which whatever is set counts.

_HEAD = "# Measured by `antiphon doctor --tune`. Whatever the configuration sets counts over it.\n"


class TunedEngine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of the table ``[engine]`` that were measured."""

    threads: Annotated[int, msgspec.Meta(ge=1)]


class Tuned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``cores``: how many the process could use when this was measured. With another number of them it says nothing."""

    cores: int
    engine: TunedEngine

    @property
    def counts(self) -> bool:
        return self.cores == usable_cores()


def tuned_file(environ: Mapping[str, str]) -> Path:
    """The path at which it is stored, whether it exists or not."""
    if home := environ.get(HOME):
        return Path(home).expanduser() / "tuned.toml"
    return platformdirs.user_config_path("antiphon", appauthor=False) / "tuned.toml"


def read_tuned(file: Path) -> Tuned | None:
    """Reads the measured settings; None where there are none. Raises `ConfigError` for a file of another form."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Tuned)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise ConfigError(
            f"{file}: {words_of(error)}", hint="Delete it; antiphon doctor --tune writes it anew."
        ) from error


def write_tuned(file: Path, tuned: Tuned) -> None:
    """Raises `ConfigError` where it cannot be written."""
    text = f"{_HEAD}cores = {tuned.cores}\n\n[engine]\nthreads = {tuned.engine.threads}\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}", code="unwritable_output") from error
    write(file, text.encode())


def tuned_layer(environ: Mapping[str, str]) -> Layer:
    """Its values by key; nothing where nothing was measured for as many cores as this process can use."""
    file = tuned_file(environ)
    tuned = read_tuned(file)
    if tuned is None or not tuned.counts:
        return {}
    return {("engine", "threads"): Layered(tuned.engine.threads, str(file))}


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, the file that it looked for, and the layered value of every key that was given.

    ``layers`` have what each source gave, the weakest first, also what does not count.
    """

    config: Config
    file: Path
    given: Mapping[KeyPath, Layered]
    layers: tuple[Layer, ...] = ()

    def rows(self) -> list[tuple[str, Any, str]]:
        """(key, value, origin) of every key, without passwords."""
        values = flatten(msgspec.to_builtins(self.config))
        keys = [*known_keys(Config), *(key for key in self.given if key[0] == "models")]
        return [(dotted(key), public(key, values.get(key)), self.origin(key)) for key in keys]

    def origin(self, key: KeyPath) -> str:
        return self.given[key].origin if key in self.given else "default"


def public(key: KeyPath, value: Any) -> Any:
    """The value of a key without the password that may be in it."""
    return hidden_password(value) if key == ("sessions", "store") and isinstance(value, str) else value


def load_config(
    environ: Mapping[str, str], flags: Mapping[str, Any] | None = None, *, engines: EngineKinds = NO_KINDS
) -> LoadedConfig:
    """The configuration of this process. ``flags`` maps dotted keys to values; None means that a flag was not given.

    ``engines`` are kinds of engines by name that models may have, beside the built-in and the installed ones. Raises
    `ConfigError` for a file that is no TOML, an unknown key or engine (with the near ones), or a value of another type.
    """
    file = config_file(environ)
    layers = (
        home_layer(environ),
        tuned_layer(environ),
        file_layer(file, required=bool(environ.get(FILE)), kinds=engines),
        environment_layer(environ),
        flag_layer(flags or {}),
    )
    given = effective(layers)
    return LoadedConfig(configuration(given, engines), file, given, layers)


def configuration(given: Layer, kinds: EngineKinds = NO_KINDS) -> Config:
    """The typed configuration of layered values. Raises `ConfigError` with the key and the origin of a wrong one."""
    origins = {dotted(key): layered.origin for key, layered in given.items()}

    def origin(key: str) -> str:
        return origins.get(key, "")

    tree = nest((key, layered.value) for key, layered in given.items())
    models = {
        name: entry_of(
            name,
            {**merged(shipped_tables().get(name, {}), table), "from_catalogue": catalogue_keys(name, table)},
            kinds,
            origin=origin,
        )
        for name, table in with_shipped_aliases(tree.pop("models", {})).items()
    }
    config = typed(tree, Config, origin=origin)
    limits, servers = config.limits, [entry for entry in models.values() if entry.engine.remote]
    streams = sum(entry.slots or entry.engine.streams for entry in servers)
    if not limits.max_concurrent and streams > CONCURRENT:  # as many at once as the servers are asked for at once
        limits = msgspec.structs.replace(limits, max_concurrent=streams)
    return msgspec.structs.replace(config, models=models, limits=limits)


def read_config(
    file: str | Path | None, flags: Mapping[str, Any] | None = None, engines: EngineKinds = NO_KINDS
) -> Config:
    """The configuration of this process, from another file if one is named. Raises `ConfigError`."""
    environ = dict(os.environ) | ({FILE: str(file)} if file is not None else {})
    return load_config(environ, flags, engines=engines).config
