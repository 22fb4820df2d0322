"""From loading to serving to draining, and the requests that run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from antiphon.errors import AntiphonError, OverloadedError

Result = TypeVar("Result")


class Work:
    """One request's work, which a server that stops can end with an error instead of silence."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._error: AntiphonError | None = None

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``work``, or the error that `stop` gave, now or before."""
        if self._error is not None:
            work.close()
            raise self._error
        self._task = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if self._error is None:
                raise
            raise self._error from None
        finally:
            self._task = None

    def stop(self, error: AntiphonError) -> None:
        self._error = self._error or error
        if self._task is not None:
            self._task.cancel()


class Lifecycle:
    """``loading`` while the first model loads; ``draining`` once the server is stopping."""

    def __init__(self) -> None:
        self.loading = False
        self.draining = False
        self.works: set[Work] = set()

    def check(self) -> None:
        """Raises `OverloadedError` while the server takes no requests."""
        if self.draining:
            raise OverloadedError("The server is stopping.", code="draining", retry_after=5.0)

    def check_ready(self) -> None:
        self.check()
        if self.loading:
            raise OverloadedError("The model is loading.", code="loading", retry_after=2.0)

    def drain(self) -> None:
        """No new requests from now on; those that run go on."""
        self.draining = True

    def stop(self) -> None:
        """The deadline has come: what still runs ends with an error that its client can read."""
        for work in tuple(self.works):
            work.stop(OverloadedError("The server stopped before the answer was whole.", code="draining"))
