"""SIGHUP: the configuration and the keys are read again, and a running server takes what it can without a restart."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette

from antiphon.catalog import Catalog, open_catalog
from antiphon.catalog.known_formats import check_models
from antiphon.config import NO_KEYS, Config, KeyPath, flatten
from antiphon.errors import AntiphonError, ConfigError
from antiphon.http.context import Context
from antiphon.http.gate.keys import Key, KeyFile
from antiphon.http.server.server import Certificate, Server, certificate
from antiphon.observe.logs import set_up_log

LOG = logging.getLogger("antiphon.serve")

LIVE_TABLES = frozenset({"models", "limits", "log"})
LIVE = frozenset(
    {
        ("model",), ("format",), ("chat_template",),
        *(("server", key) for key in "keys tls_cert tls_key public_metrics expose_reasoning gather debug".split()),
    }
)  # fmt: skip
"""Keys that change without a restart."""


class Reloaded(msgspec.Struct, frozen=True):
    """Outcome of reading a configuration again. ``warning`` is what only a restart changes."""

    taken: bool
    line: str
    warning: str = ""

    @classmethod
    def refused(cls, error: AntiphonError) -> Reloaded:
        return cls(False, f"the configuration stays as it was: {error}")

    def log(self) -> None:
        if self.warning:
            LOG.warning("%s", self.warning)
        LOG.log(logging.INFO if self.taken else logging.ERROR, "%s", self.line)


class Reload:
    """All or nothing: what cannot be used leaves everything as it was, and the log says why."""

    def __init__(self, app: Starlette, catalog: Catalog, config: Config) -> None:
        self._context: Context = app.state.context
        self._catalog = catalog
        self._first = config
        self._running = flatten(msgspec.to_builtins(config))
        self._alone = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, read: Callable[[], Config], server: Server) -> None:
        if terminal_is_gone():
            server.should_exit = True
            return

        async def reload_and_log() -> None:
            (await self.reload(read, server)).log()

        task = asyncio.ensure_future(reload_and_log())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def reload(self, read: Callable[[], Config], server: Server) -> Reloaded:
        """Takes what can be taken, one call after the other; what became of it, which is not in the log yet."""
        async with self._alone:
            try:
                config = read()
                keys = keys_of(config, required=not self._context.keys.open)
                tls = certificate(config.server.tls_cert, config.server.tls_key) if server.config.ssl else None
                check_models(config)
                catalog = open_catalog(self._lasting(config))
                set_up(config)
            except AntiphonError as error:
                return Reloaded.refused(error)
            return await self._take(config, keys, tls, catalog, server)

    def _lasting(self, config: Config) -> Config:
        """The models of ``config`` in the engine and store that the server began with."""
        first = self._first
        return msgspec.structs.replace(
            config, engine=first.engine, store=first.store, embedding_model=first.embedding_model
        )

    async def _take(
        self, config: Config, keys: list[Key] | None, tls: Certificate | None, catalog: Catalog, server: Server
    ) -> Reloaded:
        context, rules = self._context, self._context.rules
        rules.limits = config.limits
        rules.public_metrics = config.server.public_metrics
        rules.expose_reasoning = config.server.expose_reasoning
        rules.gather = config.server.gather
        context.admission.let_in()
        if keys is not None:
            context.keys.replace(keys)
        if tls is not None:
            server.present(tls)
        await self._catalog.take(catalog)
        return self._changes(flatten(msgspec.to_builtins(config)), keys)

    def _changes(self, config: dict[KeyPath, Any], keys: list[Key] | None) -> Reloaded:
        running = self._running
        paths = (key for key in {*config, *running} if key[-1] not in NO_KEYS)
        changed = sorted(key for key in paths if config.get(key) != running.get(key))
        taken = [key for key in changed if key in LIVE or key[0] in LIVE_TABLES]
        self._running = {key: value for key, value in running.items() if key not in taken}
        self._running |= {key: config[key] for key in taken if key in config}
        count = "none" if keys is None else len(keys)
        left = [key for key in changed if key not in taken]
        warning = f"only a restart changes {dotted(left)}" if left else ""
        return Reloaded(
            True, f"the configuration is read again: {dotted(taken) or 'nothing changed'}; keys: {count}", warning
        )


def keys_of(config: Config, *, required: bool) -> list[Key] | None:
    """The keys in the file of ``config``. Raises `ConfigError` where they are ``required`` and there is no file."""
    keys = KeyFile(Path(config.server.keys)).read()
    if keys is None and required:
        raise ConfigError(f"there is no file of keys at {config.server.keys}, and without it all doors were open")
    return keys


def set_up(config: Config) -> None:
    """The log as the configuration has it. Raises `ConfigError`."""
    set_up_log(**msgspec.structs.asdict(config.log))


def dotted(keys: list[KeyPath]) -> str:
    return ", ".join(".".join(key) for key in keys)


def terminal_is_gone() -> bool:
    """SIGHUP also says that the terminal was closed in which the server was started: then it is to stop."""
    try:
        os.tcgetpgrp(sys.stdin.fileno())
    except (OSError, ValueError) as error:
        return getattr(error, "errno", None) == errno.EIO
    return False
