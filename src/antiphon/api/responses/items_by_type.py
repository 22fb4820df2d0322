"""Items of tools that the client gives by their types and runs: what a call does, and what came of it."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from antiphon.conversation import ToolSpec
from antiphon.structs import ready
from antiphon.wire.definitions import NAME, NAMESPACE, no_such_tool, read_function
from antiphon.wire.errors import refused
from antiphon.wire.json import invalid

from .item_schema import TYPED, InputItem, InputPart, JsonObject

Kind = TypeVar("Kind")


def converted(value: object, kind: type[Kind], path: str) -> Kind:
    """Raises `RequestError` for a value of another kind."""
    try:
        return msgspec.convert(value, ready(kind))
    except msgspec.ValidationError as error:
        raise invalid(str(error), msgspec.Struct, path) from None


def action_text(item: InputItem, said: str, path: str) -> str:
    """The arguments by which a model requests what a call of a tool by type does."""
    given: JsonObject = getattr(item, said)
    action = converted(given, TYPED[(item.type or "").removesuffix("_call")].action, f"{path}.{said}")
    if item.type == "tool_search_call":
        return json.dumps(action)
    fields = {name: value for name, value in msgspec.to_builtins(action).items() if value not in (None, {})}
    return json.dumps({name: value for name, value in fields.items() if (name, value) != ("type", "exec")})


def printed_text(part: InputPart, path: str) -> str:
    """Shows the model what a command printed, and how it ended."""
    match part.outcome:
        case {"type": "exit", "exit_code": int(code)}:
            end = f"[exit code {code}]"
        case {"type": "timeout"}:
            end = "[timeout]"
        case _:
            raise refused(f"{path}.outcome", "is an exit with its exit_code, or a timeout.")
    printed = (text.removesuffix("\n") for text in (part.stdout, part.stderr) if text)
    return "\n".join((*printed, end))


class FoundTool(msgspec.Struct, kw_only=True):
    """A tool that a search of the client's found: a function, or a ``namespace`` of functions."""

    name: str
    type: str = "function"
    description: str | None = None
    parameters: JsonObject | bool | None = None
    strict: bool | None = None
    tools: list[FoundTool] | None = None


def found_tools(item: InputItem, path: str) -> tuple[ToolSpec, ...]:
    """The tools of a search's output. Raises `RequestError` at one that is no function, or malformed."""
    found = converted(item.tools, list[FoundTool], f"{path}.tools")
    specs: dict[str, ToolSpec] = {}
    for i, one in enumerate(found):
        at, space = f"{path}.tools[{i}]", one.name if one.type == "namespace" else None
        if space is not None and ("." in space or not NAME.fullmatch(space)):
            raise refused(f"{at}.name", NAMESPACE)
        inner = [(at, one)] if space is None else [(f"{at}.tools[{k}]", tool) for k, tool in enumerate(one.tools or ())]
        for place, tool in inner:
            if tool.type != "function":
                raise no_such_tool(tool.type, place, ("function", *(() if space else ("namespace",))))
            if "." in tool.name:
                raise refused(f"{place}.name", "what a search finds has no dot in its name.", hint="Use a namespace.")
            spec = read_function(tool, place, namespace=space, taken=specs)
            specs[spec.name] = spec
    return tuple(specs.values())
