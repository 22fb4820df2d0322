"""Kinds of engines by name: the modules beside this one, those that are handed in, and those of installed packages.

The settings of the built-in kind ``x`` are the `EngineSettings` with that tag in ``antiphon.engines.x``. A module is
imported when its kind is named: clients of HTTP are slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType

from antiphon.errors import ConfigError, near
from antiphon.plugins import ENGINES, load_plugin, plugin_names

from .kind import EngineSettings, kind_name

EngineKinds = Mapping[str, type[EngineSettings]]
"""The settings of each kind of engine, by the name that ``engine.kind`` has in the configuration."""
NO_KINDS: EngineKinds = MappingProxyType({})


def engine_kinds(kinds: EngineKinds = NO_KINDS) -> tuple[str, ...]:
    """The names that a configuration may use, sorted. ``kinds`` are handed in."""
    return tuple(sorted({*built_in_kinds(), *kinds, *plugin_names(ENGINES)}))


def engine_kind(name: str, kinds: EngineKinds = NO_KINDS) -> type[EngineSettings]:
    """The settings of the kind of that name. One that is handed in counts first, then a built-in one.

    Errors: `ConfigError`, code ``engine_unknown`` with the names that there are, and ``plugin_unusable`` for a package
    that publishes something else.
    """
    if name in kinds:
        return kinds[name]
    found = _built_in(name) or load_plugin(ENGINES, name)
    if found is None:
        known = engine_kinds(kinds)
        hint = f"{near(name, known)} " if near(name, known).startswith("Did") else ""
        raise ConfigError(
            f"unknown engine {name!r}", code="engine_unknown", hint=f"{hint}The engines are {', '.join(known)}."
        )
    return _checked(name, found)


def built_in_kinds() -> tuple[str, ...]:
    """The kinds that need no package and no argument, sorted. All their modules are imported."""
    return tuple(name for name in sorted(_modules()) if _built_in(name))


def _modules() -> set[str]:
    return {module.name for module in iter_modules([str(Path(__file__).parent)])}


def _built_in(name: str) -> type[EngineSettings] | None:
    """The settings in the module of that name; None where there is no such module, or it is no engine's."""
    if name not in _modules():
        return None
    published = vars(import_module(f"{__package__}.{name}")).values()
    classes = (each for each in published if isinstance(each, type) and issubclass(each, EngineSettings))
    return next((each for each in classes if kind_name(each) == name), None)


def _checked(name: str, found: object) -> type[EngineSettings]:
    if not (isinstance(found, type) and issubclass(found, EngineSettings)):
        raise ConfigError(f"the engine {name!r} has no EngineSettings", code="plugin_unusable")
    if kind_name(found) != name:
        raise ConfigError(
            f"the engine {name!r} calls itself {kind_name(found)!r}",
            code="plugin_unusable",
            hint=f'Its settings are to be declared with tag="{name}".',
        )
    return found
