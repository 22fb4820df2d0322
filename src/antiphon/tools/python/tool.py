"""Harmony's built-in ``python``: the body of a call is the code, an interpreter lives as long as its session."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from antiphon.conversation import PYTHON, JsonSchema, OpaquePart, ToolNamespace, ToolSpec
from antiphon.tools.call import TOOL_FAILED, TOOL_TIMEOUT, ToolCall, ToolError, ToolOutput
from antiphon.tools.tool import Tool, ToolFailure

from .sandbox import Bubblewrap, Cell, Interpreter


class PythonTool:
    """Runs code in an interpreter of its session, at most ``interpreters`` of them; the least recently used goes first.

    A call without a session gets an interpreter of its own, which ends with it. A cell over a limit costs the
    interpreter: the answer says so, and the next call finds a fresh one.
    """

    recipient = "python"
    parameters: JsonSchema | None = None

    def __init__(self, sandbox: Bubblewrap, *, interpreters: int = 8) -> None:
        self._sandbox = sandbox
        self._most = interpreters
        self._sessions: OrderedDict[str, Interpreter] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (self,)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return ()

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return (PYTHON,)

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        if not call.session:
            interpreter = await self._sandbox.start()
            try:
                return _output(await interpreter.run(call.body))
            finally:
                await interpreter.aclose()
        async with self._locks.setdefault(call.session, asyncio.Lock()):
            interpreter = await self._of(call.session)
            cell = await interpreter.run(call.body)
        return _output(cell)

    async def _of(self, session: str) -> Interpreter:
        interpreter = self._sessions.pop(session, None)
        if interpreter is None or not interpreter.alive:
            interpreter = await self._sandbox.start()
        self._sessions[session] = interpreter
        while len(self._sessions) > self._most:
            await self.end(next(iter(self._sessions)))
        return interpreter

    async def end(self, session: str) -> None:
        """Ends a session's interpreter; its variables are gone."""
        interpreter = self._sessions.pop(session, None)
        self._locks.pop(session, None)
        if interpreter is not None:
            await interpreter.aclose()

    async def aclose(self) -> None:
        for session in list(self._sessions):
            await self.end(session)


def _output(cell: Cell) -> ToolOutput:
    """The cell's text as it is (an error of the code is output too), its pictures beside it."""
    if cell.lost is not None:
        code = TOOL_TIMEOUT if cell.lost.startswith("no result") else TOOL_FAILED
        raise ToolFailure(ToolError(code, f"{cell.lost}; the interpreter was restarted and its variables are lost"))
    sent = len(cell.text.encode())
    cut = f"\n[cut: {cell.bytes - sent:,} of {cell.bytes:,} bytes left out]" if cell.bytes > sent else ""
    media = tuple(OpaquePart("image", {"mime": "image/png", "base64": image}) for image in cell.images)
    return ToolOutput(content=cell.text + cut, media=media, plain=True)
