"""What a tool is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

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
