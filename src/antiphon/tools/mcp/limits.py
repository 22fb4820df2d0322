"""How many sessions there are with an MCP server."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.tools.pool import PoolSize


@dataclass(frozen=True, slots=True)
class McpLimits:
    """``sessions`` with one server, one an owner; ``wait`` is for how many seconds a call waits for room.

    An owner's session that no call used for ``idle`` seconds is closed; that of the nameless owner stays.
    """

    sessions: int = 8
    idle: float = 600.0
    wait: float = 10.0

    @property
    def size(self) -> PoolSize:
        return PoolSize(total=self.sessions, per_owner=1, wait=self.wait, users=1024, idle=self.idle)
