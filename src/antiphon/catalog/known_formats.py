"""The formats that there are, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from antiphon.config import Config
from antiphon.errors import ConfigError, Position, near
from antiphon.formats import Format, FormatFactory, FormatRegistry
from antiphon.formats.harmony.controls import CONTROLS as HARMONY_CONTROLS
from antiphon.formats.template import register_templates
from antiphon.plugins import FORMATS, load_plugin, plugin_names
from antiphon.tokens import Control

KNOWN_CONTROLS = (*HARMONY_CONTROLS, Control("<|im_start|>"), Control("<|im_end|>"))
"""The controls of a vocabulary that belongs to no model: of the scripted engine, and of a format by itself."""


NO_FORMATS: Mapping[str, FormatFactory] = MappingProxyType({})


class InstalledFormats:
    """Formats that installed packages publish as ``antiphon.formats``."""

    def names(self) -> Iterable[str]:
        return plugin_names(FORMATS)

    def find(self, name: str) -> FormatFactory | None:
        """Raises `ConfigError` for a package that cannot be imported, or publishes something else."""
        found = load_plugin(FORMATS, name)
        if found is None:
            return None
        if not callable(found):
            raise ConfigError(f"the format {name!r} is no function that makes one", code="plugin_unusable")
        factory: FormatFactory = found
        return factory


def known_formats(formats: Mapping[str, FormatFactory] = NO_FORMATS) -> FormatRegistry:
    """Every format by name: Harmony, OpenChatML, the chat templates, ``formats``, and those of installed packages.

    Raises `ConfigError` (``format_exists``) for one of ``formats`` that has the name of a built-in format.
    """
    known = FormatRegistry(InstalledFormats())
    known.register("harmony", _harmony)
    known.register("openchatml", _openchatml)
    register_templates(known)
    for name, factory in formats.items():
        if name in known:
            raise ConfigError(f"there is a format {name!r} already", code="format_exists", hint="Choose another name.")
        known.register(name, factory)
    return known


def _harmony(controls: Collection[Control]) -> Format:
    from antiphon.formats.harmony import harmony  # a format that is named needs none of the others

    return harmony(controls)


def _openchatml(controls: Collection[Control]) -> Format:
    from antiphon.formats.openchatml import openchatml  # Few models speak it, and it brings a reader of YAML.

    return openchatml(controls)


# What can be seen to be wrong with configured models before any of them is loaded.


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
