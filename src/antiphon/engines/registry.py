"""Kinds of engines by name: ours, those that are handed in, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from antiphon.errors import ConfigError, near
from antiphon.plugins import ENGINES, load_plugin, plugin_names

from .kind import EngineSettings, kind_name

OWN: Mapping[str, str] = MappingProxyType(
    {
        "llama_cpp": "antiphon.engines.llama_cpp.kind:LlamaCpp",
        "llama_server": "antiphon.engines.llama_cpp.server:LlamaServer",
        "scripted": "antiphon.engines.scripted:Scripted",
        "vllm": "antiphon.engines.vllm:Vllm",
    }
)
"""Where each kind's settings are. They are imported when a configuration names the kind: clients of HTTP are slow."""

EngineKinds = Mapping[str, type[EngineSettings]]
NO_KINDS: EngineKinds = MappingProxyType({})


def engine_kinds(kinds: EngineKinds = NO_KINDS) -> tuple[str, ...]:
    """The names that a configuration may use, sorted. ``kinds`` are handed in."""
    return tuple(sorted({*OWN, *kinds, *plugin_names(ENGINES)}))


def engine_kind(name: str, kinds: EngineKinds = NO_KINDS) -> type[EngineSettings]:
    """The settings of the kind of that name. One that is handed in counts before ours, ours before a package's.

    Errors: `ConfigError`, code ``engine_unknown`` with the names that there are, and ``plugin_unusable`` for a package
    that publishes something else.
    """
    if name in kinds:
        return kinds[name]
    found = _own(name) if name in OWN else load_plugin(ENGINES, name)
    if found is None:
        known = engine_kinds(kinds)
        hint = f"{near(name, known)} " if near(name, known).startswith("Did") else ""
        raise ConfigError(
            f"unknown engine {name!r}", code="engine_unknown", hint=f"{hint}The engines are {', '.join(known)}."
        )
    return _checked(name, found)


def _own(name: str) -> object:
    module, _, attribute = OWN[name].partition(":")
    found: object = getattr(import_module(module), attribute)
    return found


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
