"""Tools, sets of them, and the sets that go by a name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from antiphon.conversation import JsonSchema, ToolNamespace, ToolSpec
from antiphon.errors import ConfigError
from antiphon.plugins import TOOLS, load_plugin, plugin_names

from .call import ToolCall, ToolError, ToolOutput


class ToolFailure(Exception):
    """Raised by a tool to answer with a typed error; every other exception becomes ``E-TOOL-FAILED``."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message)
        self.error = error


class Tool(Protocol):
    """One thing that a model can call. Runs may be concurrent; a run that is cancelled must stop and clean up."""

    @property
    def recipient(self) -> str:
        """The qualified name that calls are addressed to."""

    @property
    def parameters(self) -> JsonSchema | None:
        """The schema that a call's body must satisfy; None when the body is not JSON (``python``'s is code)."""

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        """The output of one call. ``arguments`` is empty where ``parameters`` is None: the body is in ``call``."""


class DescribedTool(ABC):
    """Base of a tool that is offered as a function: its name and its parameters are those of its ``spec``."""

    __slots__ = ()
    spec: ToolSpec

    @property
    def recipient(self) -> str:
        return self.spec.recipient

    @property
    def parameters(self) -> JsonSchema | None:
        return self.spec.parameters

    @abstractmethod
    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        """The output of one call, as `Tool.run` has it."""


@runtime_checkable
class ToolSet(Protocol):
    """Tools that come together: a Python module's functions, an MCP server, the browser."""

    @property
    def tools(self) -> tuple[Tool, ...]: ...

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """How functions are described to the model."""

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        """How built-ins are described to the model (Harmony's system message)."""

    async def aclose(self) -> None: ...


class DescribedToolSet:
    """Base of a tool set of functions, which are described to the model one by one, and of no built-ins."""

    def __init__(self, tools: Iterable[DescribedTool] = ()) -> None:
        self._tools = tuple(tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools)

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return ()

    async def aclose(self) -> None:
        return None


# Tool sets by name: those that are handed in, and those of installed packages.

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
