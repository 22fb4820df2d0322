"""Additions of installed packages to the tables of engines, formats, stores, tools and wires, by entry points.

Nothing is imported until it is requested by its name, so a package that nobody uses costs no start-up time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

ENGINES = "antiphon.engines"
FORMATS = "antiphon.formats"
STORES = "antiphon.stores"
TOOLS = "antiphon.tools"
WIRES = "antiphon.wires"


def plugin_names(group: str) -> tuple[str, ...]:
    """The names that installed packages publish in a group, sorted; none of them is imported."""
    return tuple(sorted(_points(group).names))


def load_plugin(group: str, name: str) -> object | None:
    """The object that a package publishes under ``name``; None where none does.

    Errors: `ConfigError`, code ``plugin_unusable`` where its import fails, ``plugin_ambiguous`` where two packages
    publish that name.
    """
    found = {point.value: point for point in _points(group).select(name=name)}
    if len(found) > 1:
        raise ConfigError(
            f"several packages publish {name!r} as {group}: {', '.join(sorted(found))}",
            code="plugin_ambiguous",
            hint="Uninstall all but one.",
        )
    return next((_imported(point) for point in found.values()), None)


def _points(group: str) -> EntryPoints:
    from importlib.metadata import entry_points  # Here and not above: most programs look for no package.

    return entry_points(group=group)


def _imported(point: EntryPoint) -> object:
    try:
        found: object = point.load()
    except Exception as error:
        raise ConfigError(
            f"the {point.group} entry {point.name!r} cannot be imported from {point.value}: "
            f"{type(error).__name__}: {error}",
            code="plugin_unusable",
            hint="It is the package that publishes it which is at fault, or its version.",
        ) from error
    return found
