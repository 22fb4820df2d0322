"""The server over stdio: requests come on standard input, and what tools find leaves on standard output."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from io import TextIOWrapper
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from antiphon.errors import AntiphonError, near
from antiphon.tools.call import TOOL_TIMEOUT
from antiphon.version import __version__

from .tools import TOOLS

LONGEST_LINE = 16 << 20
"""Characters of a request; a longer one is refused."""
SECONDS = 60.0
"""A call that takes longer has no result; its thread goes on to the end of what it does."""
WORKERS = 4
INSTRUCTIONS = "Prompts and transcripts of language models: render, parse, convert, validate, format, lint, check."


def serve() -> None:
    """Answers until standard input ends."""

    async def run() -> None:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="tool") as threads:
            server = _server(threads)
            lines = BoundedLines(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))
            async with stdio_server(stdin=lines) as (requests, answers):
                await server.run(requests, answers, server.create_initialization_options())

    anyio.run(run)


class BoundedLines(anyio.AsyncFile[str]):
    """Text whose lines are cut at `LONGEST_LINE`, so that one without an end takes no more memory."""

    async def readline(self) -> str:
        line = part = await self._part()
        while len(part) == LONGEST_LINE and not part.endswith("\n"):
            part = await self._part()
        return line

    async def _part(self) -> str:
        return await anyio.to_thread.run_sync(self.wrapped.readline, LONGEST_LINE)


def _server(threads: ThreadPoolExecutor) -> Server[dict[str, Any]]:
    async def call(
        context: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        work = asyncio.get_running_loop().run_in_executor(threads, result_of, params.name, params.arguments or {})
        try:
            async with asyncio.timeout(SECONDS):
                return await work
        except TimeoutError:
            return tool_error(TOOL_TIMEOUT, f"no result within {SECONDS:g} s", hint="Give it less at once.")

    return Server("antiphon", version=__version__, instructions=INSTRUCTIONS, on_list_tools=_listed, on_call_tool=call)


async def _listed(
    context: ServerRequestContext[dict[str, Any]], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[described(name) for name in TOOLS])


def described(name: str) -> types.Tool:
    """A tool as clients see it: it only reads its arguments, and asks nobody else."""
    tool = TOOLS[name]
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.purpose,
        input_schema=schema_of(tool.arguments),
        output_schema=schema_of(tool.result),
        annotations=hints,
    )


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct, an object at its root as MCP wants it."""
    _, components = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    root: dict[str, Any] = components.pop(kind.__name__)
    return root | ({"$defs": components} if components else {})


def result_of(name: str, values: Mapping[str, Any]) -> types.CallToolResult:
    """The result of a call, whatever its arguments: an error is one that the model can read and repair."""
    if name not in TOOLS:
        return tool_error("not_found", f"there is no tool {name[:200]!r}", hint=near(name[:200], TOOLS))
    try:
        return _result(TOOLS[name].answer(values))
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        return tool_error("invalid_value", message, position={"path": path.rstrip("`") or "$"})
    except AntiphonError as error:
        return tool_error(error.code, error.message, position=_place(error), hint=error.hint)
    except UnicodeError:
        return tool_error("invalid_value", "a text holds a lone surrogate, which is no character")
    except RecursionError:
        return tool_error("json_too_deep", "the arguments are nested too deeply")


def tool_error(
    code: str, message: str, *, position: Mapping[str, Any] | None = None, hint: str | None = None
) -> types.CallToolResult:
    """``{"error": {"code", "message", "position", "hint"}}``, what there is of it."""
    error = {"code": code, "message": message, "position": position, "hint": hint}
    return _result({"error": {key: value for key, value in error.items() if value}}, is_error=True)


def _place(error: AntiphonError) -> dict[str, Any]:
    place = {} if error.position is None else asdict(error.position)
    return {key: value for key, value in place.items() if value is not None}


def _result(content: Any, *, is_error: bool = False) -> types.CallToolResult:
    text = json.dumps(content, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=content, is_error=is_error
    )
