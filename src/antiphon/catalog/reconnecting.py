"""An engine on a server that may be restarted: what answers there after a loss may be another model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.engines import Engine, EngineInfo, EngineProxy
from antiphon.errors import UNREACHABLE, EngineLostError, OverloadedError


class ReconnectingEngine(EngineProxy):
    """``lost`` from the first time that the server did not answer, or broke off.

    The catalog then retires this engine and connects a new one, which queries the server anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users = 0
        self._retired = False
        self.lost = False

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    async def retire(self) -> None:
        """Closes the connections when the last reply has ended; nobody gets this engine any more."""
        self._retired = True
        if self._users == 0:
            await self.aclose()

    async def aclose(self) -> None:
        await self._engine.aclose()

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Engine]:
        if self._retired and self._users == 0:
            raise OverloadedError("the engine's server was lost", code=UNREACHABLE, hint="Try again: it is reopened.")
        self._users += 1
        try:
            yield self._engine
        except EngineLostError:
            self.lost = True
            raise
        except OverloadedError as error:
            self.lost = self.lost or error.code == UNREACHABLE
            raise
        finally:
            self._users -= 1
            if self._retired and self._users == 0:
                await self.aclose()
