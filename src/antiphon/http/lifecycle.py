"""From loading to serving to draining, and the requests that run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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
        self._task = task = asyncio.current_task()
        assert task is not None
        try:
            return await work
        except asyncio.CancelledError:
            if (error := self._stopped_by()) is None:
                raise
            task.uncancel()
            raise error from None
        finally:
            self._task = None

    def _stopped_by(self) -> AntiphonError | None:
        return self._error

    def stop(self, error: AntiphonError) -> None:
        self._error = self._error or error
        if self._task is not None:
            self._task.cancel()


class Lifecycle:
    """``loading`` while the first model loads; ``draining`` once the server is stopping.

    ``first_load_is_told``: somebody calls `on_first_load`, before that load is over or after it.
    """

    def __init__(self) -> None:
        self.loading: bool = False
        self._first_load_pending = False
        self._load_error: AntiphonError | None = None
        self._on_first_load: Callable[[AntiphonError | None], None] | None = None
        self.first_load_is_told: bool = False
        self.draining: bool = False
        self.drained: asyncio.Event = asyncio.Event()
        self.works: set[Work] = set()

    def check(self) -> None:
        """Raises `OverloadedError` while the server takes no requests."""
        if self.draining:
            raise OverloadedError("The server is stopping.", code="draining", retry_after=5.0)

    def begin_loading(self) -> None:
        """The default model is loaded at the start; `end_first_load` says how that went."""
        self.loading = self._first_load_pending = True

    def end_first_load(self, error: AntiphonError | None = None) -> bool:
        """The first load is over; False where nobody hears how it went. ``error``: why the model cannot be loaded."""
        if not self._first_load_pending:
            return False
        self._first_load_pending, self._load_error = False, error
        if self._on_first_load is not None:
            self._on_first_load(error)
        return self.first_load_is_told

    def on_first_load(self, call: Callable[[AntiphonError | None], None]) -> None:
        """Calls ``call`` once the model that is loaded at the start is there, or cannot be; at once if none is."""
        self._on_first_load, self.first_load_is_told = call, True
        if not self._first_load_pending:
            call(self._load_error)

    def check_ready(self) -> None:
        self.check()
        if self.loading:
            raise OverloadedError("The model is loading.", code="loading", retry_after=2.0)

    async def run(self, work: Coroutine[Any, Any, Result], own: Work | None = None) -> Result:
        """The result of ``work``, which a server that stops can end, and whoever has ``own``."""
        own = own or Work()
        self.works.add(own)
        try:
            return await own.run(work)
        finally:
            self.works.discard(own)

    def drain(self) -> None:
        """No new requests from now on; those that run go on."""
        self.draining = True
        self.drained.set()

    def stop(self) -> None:
        """The deadline has come: what still runs ends with an error that its client can read."""
        for work in tuple(self.works):
            work.stop(stopped())


def stopped() -> OverloadedError:
    """The error of an answer that its server did not make to its end."""
    return OverloadedError("The server stopped before the answer was whole.", code="draining")
