"""Tools and sets of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from antiphon.conversation import JsonSchema, ToolNamespace, ToolSpec

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
