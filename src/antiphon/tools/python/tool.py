"""Harmony's built-in ``python``: the body of a call is the code, an interpreter lives as long as its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon.conversation import PYTHON, JsonSchema, OpaquePart, ToolNamespace, ToolSpec
from antiphon.tools.call import TOOL_FAILED, TOOL_TIMEOUT, ToolCall, ToolError, ToolOutput
from antiphon.tools.pool import PoolSize, Session, SessionPool
from antiphon.tools.tool import Tool, ToolFailure

from .cell import Cell
from .interpreter import Interpreter
from .sandbox import Bubblewrap

_BUSY = "all interpreters are at work; the code did not run. Call again a little later."


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """``interpreters`` in all and ``per_owner``; ``wait`` is for how many seconds a call waits for room.

    The nameless owner (a server without keys, a program of its own) may have them all.
    """

    interpreters: int = 8
    per_owner: int = 4
    wait: float = 10.0

    @property
    def size(self) -> PoolSize:
        return PoolSize(total=self.interpreters, per_owner=self.per_owner, wait=self.wait)


class PythonTool:
    """Runs code in an interpreter of its session; ``pool`` says how many there are, and for whom.

    A call without a session gets an interpreter of its own, which ends with it. A cell over a limit costs the
    interpreter: the answer says so, and the next call finds a fresh one. Where variables were lost between two calls,
    the answer to the second begins with it. A call that finds no room in time is ``E-TOOL-BUSY``.
    """

    recipient = "python"
    parameters: JsonSchema | None = None

    def __init__(self, sandbox: Bubblewrap, pool: PoolLimits | None = None) -> None:
        self._output = sandbox.limits.output
        self._pool: SessionPool[Interpreter] = SessionPool(sandbox.start, (pool or PoolLimits()).size, busy=_BUSY)

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
        async with self._pool.borrow(Session(call.owner, call.session)) as borrowed:
            cell = await borrowed.resource.run(call.body)
        return self._answer(cell, borrowed.lost)

    def _answer(self, cell: Cell, lost_before: str | None) -> ToolOutput:
        """The cell's text as it is (an error of the code is output too), its pictures beside it."""
        if cell.lost is not None:
            code = TOOL_TIMEOUT if cell.late else TOOL_FAILED
            raise ToolFailure(ToolError(code, f"{cell.lost}; the interpreter was restarted and its variables are lost"))
        note = f"[a fresh interpreter: {lost_before}. Earlier variables are lost]\n" if lost_before else ""
        left_out = cell.bytes - self._output
        cut = f"\n[cut: {left_out:,} of {cell.bytes:,} bytes left out]" if left_out > 0 else ""
        media = tuple(OpaquePart("image", {"mime": "image/png", "base64": image}) for image in cell.images)
        ended = {"return_code": 0 if cell.ok else 1}
        return ToolOutput(content=note + cell.text + cut, media=media, provenance=ended, plain=True)

    async def end(self, session: str, owner: str = "") -> None:
        """Ends a session's interpreter; its variables are gone."""
        await self._pool.end(Session(owner, session))

    async def aclose(self) -> None:
        """Ends all interpreters."""
        await self._pool.aclose()
