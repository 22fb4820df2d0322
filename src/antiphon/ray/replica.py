"""The application as a replica of Ray Serve runs it: `antiphon.library.app.App`, with what Ray does not do for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Unpack

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from antiphon.config import Config
from antiphon.errors import AntiphonError, ConfigError
from antiphon.http.gate.keys import KeyFile
from antiphon.library.app import Additions, App

REQUEST_ID, OWN_ID = "x-request-id", "x-client-request-id"


def check_keys(config: Config) -> None:
    """Raises `ConfigError` where there are no keys and the configuration does not say that none are needed.

    Unlike `antiphon serve`, loopback is no excuse: where Ray listens is not ours to say, nor who reaches its replicas.
    """
    if not config.server.without_keys and KeyFile(Path(config.server.keys)).read() is None:
        raise ConfigError(
            "Ray may be reached from other machines, and there are no API keys",
            code="keys_missing",
            hint="Make one with antiphon keys add NAME, or say server.without_keys = true.",
        )


class ReplicaApp(App):
    """Ready when its default model is: a replica whose model cannot be loaded fails, and does not get requests.

    Ray adds ``x-request-id`` to every request and answer, so ours is that one, and not written again. What a client
    says in ``x-client-request-id`` comes back under that name.
    """

    def __init__(self, config: Config, **additions: Unpack[Additions]) -> None:
        super().__init__(config, preload=True, **additions)

    async def __aenter__(self) -> ReplicaApp:
        await super().__aenter__()
        loaded: asyncio.Future[AntiphonError | None] = asyncio.get_running_loop().create_future()
        self.context.lifecycle.on_first_load(loaded.set_result)
        error = await loaded
        if error is not None:
            await self.__aexit__(None, None, None)
            raise error
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        own = Headers(scope=scope).get(OWN_ID)
        scope = {**scope, "headers": [field for field in scope["headers"] if field[0] != OWN_ID.encode()]}

        async def send_once(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                del headers[REQUEST_ID]
                if own is not None:
                    headers[OWN_ID] = own
            await send(message)

        await super().__call__(scope, receive, send_once)

    def check_ready(self) -> None:
        """Raises `OverloadedError` when the replica takes no requests."""
        self.context.lifecycle.check_ready()
