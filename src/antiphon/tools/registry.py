"""Tool sets by name: those that are handed in, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from antiphon.errors import ConfigError
from antiphon.plugins import TOOLS, load_plugin, plugin_names

from .call import DescribedTool, DescribedToolSet, ToolSet

ToolFactory = Callable[[str], ToolSet | DescribedTool]
"""Takes what follows ``NAME:`` in the name that was given, or "". Raises `ConfigError` for what it cannot use."""

NO_TOOLS: Mapping[str, ToolFactory] = MappingProxyType({})


def tool_names(tools: Mapping[str, ToolFactory] = NO_TOOLS) -> tuple[str, ...]:
    """The names that `tool_set` knows, sorted. ``tools`` are handed in."""
    return tuple(sorted({*tools, *plugin_names(TOOLS)}))


def tool_set(name: str, tools: Mapping[str, ToolFactory] = NO_TOOLS) -> ToolSet | None:
    """The tool set of ``NAME`` or ``NAME:ARGUMENT``; None where nobody knows the name.

    ``tools`` count before those of packages. Errors: `ConfigError`, code ``plugin_unusable`` for a package that
    publishes no factory of tools, and what the factory raises.
    """
    name, _, argument = name.partition(":")
    factory = tools.get(name) or _published(name)
    if factory is None:
        return None
    made = factory(argument)
    if isinstance(made, DescribedTool):
        return DescribedToolSet([made])
    if not isinstance(made, ToolSet):
        raise ConfigError(f"the tools {name!r} are {type(made).__name__}, not a ToolSet", code="plugin_unusable")
    return made


def _published(name: str) -> ToolFactory | None:
    found = load_plugin(TOOLS, name)
    if found is None:
        return None
    if not callable(found):
        raise ConfigError(f"the tools {name!r} are no function that makes them", code="plugin_unusable")
    factory: ToolFactory = found
    return factory
