"""The tools that a chat is given: functions, which run here, and descriptions, whose calls go back to the caller."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.api.chat.schema import Tool
from antiphon.api.chat.tools import read_tool
from antiphon.conversation import ToolSpec
from antiphon.errors import Position, RequestError
from antiphon.tools import FunctionTool, Offer, Toolbox
from antiphon.tools.tool import DescribedToolSet
from antiphon.wire.json import encode_given

from .json_input import read_json

NAME = re.compile(r"[\w.-]{1,64}")
GivenTool = Callable[..., Any] | ToolSpec | Mapping[str, Any]


def offer_of(tools: Sequence[GivenTool] | None) -> Offer:
    """The tools that the prompt names, in their order, and the router that runs the functions.

    Raises `RequestError` at ``tools[i]`` for a function whose parameters no JSON can carry, a dictionary that is no
    tool as chat APIs write it, a name that no model could call, and a name that is there twice.
    """
    read = [_read(tool, f"tools[{i}]") for i, tool in enumerate(tools or ())]
    specs = tuple(tool.spec if isinstance(tool, FunctionTool) else tool for tool in read)
    check_names(specs)
    router = Toolbox([DescribedToolSet([tool for tool in read if isinstance(tool, FunctionTool)])]).functions.router
    return Offer(specs, (), router)


def check_names(specs: Sequence[ToolSpec], earlier: Sequence[ToolSpec] = ()) -> None:
    """Raises `RequestError` at the first of the tools that has no name, or the name of another."""
    taken = {spec.recipient for spec in earlier}
    for i, spec in enumerate(specs):
        if not NAME.fullmatch(spec.name):
            hint = "Give it one of letters, digits, _, - and dots."
            raise _refused(i, f"{spec.name[:64]!r} is no name that a model could call", hint)
        if spec.recipient in taken:
            raise _refused(i, f"another tool is named {spec.name!r}", "Give each tool once, under a name of its own.")
        taken.add(spec.recipient)


def _read(tool: GivenTool, path: str) -> ToolSpec | FunctionTool:
    if isinstance(tool, ToolSpec):
        encode_given(tool.parameters, f"{path}.parameters")
        return tool
    if isinstance(tool, Mapping):
        return read_tool(read_json(tool, Tool, path), path)
    name = getattr(tool, "__name__", type(tool).__name__)
    try:
        return FunctionTool(tool)
    except (TypeError, ValueError, NameError, AttributeError, msgspec.MsgspecError) as error:
        reason = str(error).partition("\n")[0].removeprefix(f"{name}: ")
        raise RequestError(
            f"{path}: {name} cannot be a tool: {reason}.",
            code="invalid_type",
            position=Position(path=path),
            hint="Give a function with a name, and each parameter a type that JSON can carry (str, list[int] …).",
        ) from error


def _refused(index: int, message: str, hint: str) -> RequestError:
    path = f"tools[{index}]"
    return RequestError(f"{path}: {message}.", code="invalid_value", position=Position(path=path), hint=hint)
