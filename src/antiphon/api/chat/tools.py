"""The tools and the response format of a chat body, read once for the server, conversions and programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from antiphon.conversation import ResponseFormat, ToolSpec
from antiphon.errors import Position, UnsupportedError
from antiphon.wire.definitions import read_function, read_response_format
from antiphon.wire.errors import refused

from .schema import ResponseFormatObject, Tool


def read_tools(tools: Sequence[Tool], path: str = "tools", *, any_name: bool = False) -> tuple[ToolSpec, ...]:
    """The function tools of the list at ``path``. Raises `RequestError` at the first that is none, or malformed.

    ``any_name`` lets names pass that no API would take, and a name that is there twice.
    """
    specs: list[ToolSpec] = []
    names: set[str] = set()
    for i, tool in enumerate(tools):
        specs.append(read_tool(tool, f"{path}[{i}]", names, any_name=any_name))
        names.add(specs[-1].name)
    return tuple(specs)


def read_tool(tool: Tool, path: str, taken: Collection[str] = (), *, any_name: bool = False) -> ToolSpec:
    """The function tool at ``path``, whose name is none of ``taken``. Raises `RequestError`."""
    if tool.type != "function":
        raise UnsupportedError(
            f"{path}: tools of type {tool.type[:64]!r} are not possible.",
            position=Position(path=f"{path}.type"),
            hint="Use function tools.",
        )
    if tool.function is None:
        raise refused(f"{path}.function", "a function tool needs it.", code="missing_required_parameter")
    return read_function(tool.function, f"{path}.function", taken=taken, any_name=any_name)


def read_format(wire: ResponseFormatObject | None, path: str = "response_format") -> ResponseFormat | None:
    """The answer's format; None for ``text``. Raises `RequestError` at what its type needs and lacks."""
    return read_response_format(wire, wire.json_schema, path, f"{path}.json_schema") if wire is not None else None
