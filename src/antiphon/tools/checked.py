"""A tool as the router runs it: its arguments are checked before, its output is bounded after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.conversation import OpaquePart

from .arguments import ArgumentReader, Arguments, BadArguments
from .call import TOOL_BUSY, TOOL_FAILED, ToolCall, ToolError, ToolOutput, dump
from .tool import Tool, ToolFailure
from .work import ToolWork, described


class CheckedTool(msgspec.Struct, frozen=True):
    """A tool, the reader of its arguments (None where the body is not JSON), and the calls that it did not end."""

    tool: Tool
    reader: ArgumentReader | None
    abandoned: set[ToolWork] = msgspec.field(default_factory=set)

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

    def begin(self, call: ToolCall, arguments: Arguments, *, characters: int, media: int, abandoned: int) -> ToolWork:
        """Begin the call. Raises `ToolFailure` when ``abandoned`` calls that were given up still go on."""
        if len(self.abandoned) >= abandoned:
            message = f"{len(self.abandoned)} earlier calls of this tool were given up and have not ended"
            raise ToolFailure(ToolError(TOOL_BUSY, message, retryable=True))

        async def output() -> ToolOutput:
            try:
                return bounded(await self.tool.run(call, arguments.values), characters, media)
            except ToolFailure as failure:
                raise ToolFailure(bounded_error(failure.error, characters)) from failure

        return ToolWork(output, self.abandoned)


def bounded(output: ToolOutput, characters: int, media: int) -> ToolOutput:
    """The output, cut where it is too long, with a note that says so (and never a broken JSON value or picture).

    Of its media those stay that have ``media`` characters together, the first ones first; the others are left out.
    """
    text = output.content if isinstance(output.content, str) else dump(output.content)
    if len(dump(output.provenance)) > characters:  # what cannot be written is an error here, and not in the reply
        output = replace(output, provenance={"truncated": True})
    fitting = _fitting(output.media, media)
    note, provenance = "", dict(output.provenance)
    if len(text) > characters:
        note += f"\n[cut: {len(text) - characters:,} of {len(text):,} characters left out]"
        provenance |= {"truncated": True, "characters": len(text)}
    if len(fitting) < len(output.media):
        missing = len(output.media) - len(fitting)
        note += f"\n[too large: {missing:,} of {len(output.media):,} images or other media left out]"
        provenance |= {"truncated": True, "media_left_out": missing}
    if not note:
        return output
    return replace(output, content=text[:characters] + note, media=fitting, provenance=provenance)


def bounded_error(error: ToolError, characters: int) -> ToolError:
    """The error, its message cut where it is too long, without details that are."""
    left_out = len(error.message) - characters
    note = f" [cut: {left_out:,} characters left out]" if left_out > 0 else ""
    details = error.details if len(dump(error.details)) <= characters else {}
    return replace(error, message=error.message[:characters] + note, details=details)


def _fitting(media: Sequence[OpaquePart], most: int) -> tuple[OpaquePart, ...]:
    """The media that together have no more than ``most`` characters."""
    fitting: list[OpaquePart] = []
    for part in media:
        size = _characters(part.data)
        if size <= most:
            fitting.append(part)
            most -= size
    return tuple(fitting)


def _characters(value: Any) -> int:
    """How long a value is, about, without writing it: its texts and bytes, and one for whatever else is in it."""
    match value:
        case str() | bytes() | bytearray():
            return len(value)
        case Mapping():
            return sum(_characters(key) + _characters(item) for key, item in value.items())
        case list() | tuple():
            return len(value) + sum(map(_characters, value))
        case _:
            return 1
