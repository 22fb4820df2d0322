"""The configuration of a process: defaults, what was measured, the TOML file, the environment, then flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from antiphon.engines import EngineKinds
from antiphon.engines.registry import NO_KINDS
from antiphon.store import hidden_password

from .config import Config
from .keys import KeyPath, dotted, flatten, known_keys, nest, typed
from .layers import (
    FILE,
    Layer,
    Layered,
    config_file,
    effective,
    environment_layer,
    file_layer,
    flag_layer,
    home_layer,
    tuned_layer,
)
from .limits import CONCURRENT, Limits
from .model_table import catalogue_keys, entry_of, merged, shipped_tables, with_shipped_aliases
from .models import Entries


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
    return msgspec.structs.replace(config, models=models, limits=_concurrent(config.limits, models))


def _concurrent(limits: Limits, models: Entries) -> Limits:
    """With as many requests at once as the models' servers are asked for at once, where no limit of them is set."""
    streams = sum(entry.slots or entry.engine.streams for entry in models.values() if entry.engine.remote)
    if limits.max_concurrent or streams <= CONCURRENT:
        return limits
    return msgspec.structs.replace(limits, max_concurrent=streams)
