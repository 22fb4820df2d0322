"""What can be seen to be wrong with configured models before any of them is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from antiphon.config import Config
from antiphon.errors import ConfigError, Position, near
from antiphon.formats import FormatFactory, FormatRegistry

from .known_formats import NO_FORMATS, known_formats


def check_models(config: Config, formats: Mapping[str, FormatFactory] = NO_FORMATS) -> None:
    """Raises `ConfigError` for a format that nobody knows, and for a file that is not there, of any model.

    A server would else find out when the model is first requested.
    """
    known = known_formats(formats)
    _check_format("format", config.format, known)
    _check_file("chat_template", config.chat_template)
    for name, entry in config.models.items():
        _check_format(f"models.{name}.format", entry.format, known)
        _check_file(f"models.{name}.chat_template", entry.chat_template)
        _check_file(f"models.{name}.replies", entry.replies)


def _check_format(where: str, format: str | None, known: FormatRegistry) -> None:
    if format and format not in known:
        raise ConfigError(
            f"{where}: unknown format {format!r}", position=Position(path=where), hint=near(format, known.names)
        )


def _check_file(where: str, file: str | None) -> None:
    if file and not Path(file).expanduser().is_file():
        raise ConfigError(f"{where}: there is no file {file}", position=Position(path=where))
