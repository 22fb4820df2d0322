"""What `antiphon doctor --tune` measured here: a layer of the configuration, over which whatever is set counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import platformdirs

from antiphon.engines.machine import usable_cores
from antiphon.errors import ConfigError
from antiphon.writing import write

from .layers import HOME, Layer, Layered

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
    """Where it is stored, whether it exists or not."""
    if home := environ.get(HOME):
        return Path(home).expanduser() / "tuned.toml"
    return platformdirs.user_config_path("antiphon", appauthor=False) / "tuned.toml"


def read_tuned(file: Path) -> Tuned | None:
    """None where nothing was measured. Raises `ConfigError` for a file of another form."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Tuned)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{file}: {error}", hint="Delete it; antiphon doctor --tune writes it anew.") from error


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
