"""Built-ins under the names of functions, for models whose format knows functions only (``browser__search``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from antiphon.conversation import FUNCTIONS, ToolNamespace, ToolSpec

from .call import ToolCall, ToolOutput
from .tool import DescribedTool, Tool

_CODE = "code"
_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {_CODE: {"type": "string", "description": "What to run."}},
    "required": [_CODE],
    "additionalProperties": False,
}


class FunctionAlias(DescribedTool):
    """A tool as a function: ``functions.browser__search`` for ``browser.search``; ``python``'s code is an argument."""

    def __init__(self, tool: Tool, description: str) -> None:
        self._tool = tool
        namespace, _, name = tool.recipient.partition(".")
        self.spec = ToolSpec(
            f"{namespace}__{name or 'exec'}",
            description,
            _BODY if tool.parameters is None else tool.parameters,
            namespace=FUNCTIONS,
        )

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        body = arguments[_CODE] if self._tool.parameters is None else call.body
        own = replace(call, recipient=self._tool.recipient, body=body)
        return await self._tool.run(own, {} if self._tool.parameters is None else arguments)


def as_functions(tools: Sequence[Tool], builtins: Sequence[ToolNamespace]) -> list[FunctionAlias]:
    """The tools of ``builtins`` under functions' names, in the words that describe them."""
    words: dict[str, str] = {}
    for namespace in builtins:
        words[namespace.name] = namespace.description or ""
        words |= {spec.recipient: spec.description for spec in namespace.tools}
    return [FunctionAlias(tool, words[tool.recipient]) for tool in tools if tool.recipient in words]
