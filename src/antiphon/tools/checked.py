"""A tool as the router runs it: its arguments are checked before, its output is bounded after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .arguments import ArgumentReader, Arguments, BadArguments
from .call import TOOL_BUSY, TOOL_FAILED, ToolCall, ToolError, ToolOutput, dump
from .tool import Tool, ToolFailure
from .work import ToolWork, described


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool, the reader of its arguments (None where the body is not JSON), and the calls that it did not end."""

    tool: Tool
    reader: ArgumentReader | None
    abandoned: set[ToolWork] = field(default_factory=set)

    @classmethod
    def of(cls, tool: Tool) -> CheckedTool:
        return cls(tool, None if tool.parameters is None else ArgumentReader(tool.parameters))

    def arguments(self, call: ToolCall) -> Arguments:
        """The arguments of a call. Raises `ToolFailure`, whatever is wrong with the body or with the schema."""
        if self.reader is None:
            return Arguments({})
        try:
            return self.reader.read(call)
        except BadArguments as bad:
            raise ToolFailure(bad.error) from bad
        except Exception as error:
            raise ToolFailure(ToolError(TOOL_FAILED, described(error))) from error

    def begin(self, call: ToolCall, arguments: Arguments, *, characters: int, abandoned: int) -> ToolWork:
        """Begin the call. Raises `ToolFailure` when ``abandoned`` calls that were given up still go on."""
        if len(self.abandoned) >= abandoned:
            message = f"{len(self.abandoned)} earlier calls of this tool were given up and have not ended"
            raise ToolFailure(ToolError(TOOL_BUSY, message, retryable=True))

        async def output() -> ToolOutput:
            return bounded(await self.tool.run(call, arguments.values), characters)

        return ToolWork(output, self.abandoned)


def bounded(output: ToolOutput, limit: int) -> ToolOutput:
    """The output, cut where it is too long, with a note that says so (and never a broken JSON value)."""
    text = output.content if isinstance(output.content, str) else dump(output.content)
    dump(output.provenance)  # what cannot be written is an error here, and not in the reply
    if len(text) <= limit:
        return output
    note = f"\n[cut: {len(text) - limit:,} of {len(text):,} characters left out]"
    provenance: Mapping[str, Any] = {**output.provenance, "truncated": True, "characters": len(text)}
    return replace(output, content=text[:limit] + note, provenance=provenance)
