"""The gate of keys: each route names the scope that it takes; what no route has needs a key, too."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.errors import AccessError, OverloadedError, RequestError
from antiphon.http.exchange import KEY, Exchange
from antiphon.http.route import ANYBODY, is_counted, scope_of

from .browsers import BrowserGate
from .keys import ANYBODY as ANY_PRINCIPAL
from .keys import Keyring, Principal
from .keys import Scope as KeyScope
from .rates import Rates


class Access:
    """Looks at the route that will answer, never at a URL that is built from the Host header.

    ``find`` gives the route of a request, also where it has not its method; None where no route has its path.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keyring,
        rates: Rates,
        find: Callable[[Scope], BaseRoute | None],
        browsers: BrowserGate,
    ) -> None:
        self._app = app
        self._keys = keys
        self._rates = rates
        self._find = find
        self._browsers = browsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        exchange: Exchange = scope[KEY]
        try:
            self._browsers.check(scope, exchange.headers, keyless=self._keys.open)
            route = self._find(scope)
            needed = None if route is None else scope_of(route)
            if route is not None and needed is ANYBODY:
                await self._app(scope, receive, send)
                return
            exchange.principal = self._admitted(needed, scope)
            if route is not None and not is_counted(route):
                await self._app(scope, receive, send)
            else:
                await self._limited(exchange, scope, receive, send)
        except (
            AccessError,
            OverloadedError,
            RequestError,
        ) as error:  # Those of the application are answered inside of it.
            await exchange.refusal(error)(scope, receive, send)

    async def _limited(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        owner = exchange.owner
        exchange.extra_headers = lambda: self._rates.headers(owner)
        answer = _LastHeldBack(send)
        try:
            with self._rates.request(owner):
                await self._app(scope, receive, answer.send)
        finally:
            await answer.release()

    def _admitted(self, needed: KeyScope | None, scope: Scope) -> Principal:
        """Returns the request's principal. Raises `AccessError` for an unknown key, and for one without the scope."""
        if self._keys.open:
            return ANY_PRINCIPAL
        principal = self._principal(scope["headers"])
        if needed is not None and needed not in principal.scopes:
            raise AccessError(f"This key lacks the scope {needed}.")
        return principal

    def _principal(self, headers: list[tuple[bytes, bytes]]) -> Principal:
        """The principal whose key was sent. One error for whatever is wrong with it: trying shows nothing.

        Clients of several services may send a key of each service, one in each header: one of the two is known here.
        Two headers of one name, or two keys that are both known, say nothing that could be relied on.
        """
        credentials = _credentials(headers)
        named = {name for name, _ in credentials}
        alike = len({secret for _, secret in credentials}) == 1
        principals = [self._keys.principal(secret or b"") for secret in {secret for _, secret in credentials}]
        known = {principal for principal in principals if principal is not None}
        principal = known.pop() if len(known) == 1 and (alike or len(named) == len(credentials)) else None
        if principal is None:
            raise AccessError(
                "The API key is missing or not known here.",
                code="invalid_api_key",
                hint="Send it as Authorization: Bearer KEY.",
            )
        return principal


class _LastHeldBack:
    """Sends an answer but for its last message, which waits until the request has given back all that it had.

    A client that asks one after the other would else come before its own place, session or turn is free again.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._last: Message | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._last = message
        else:
            await self._send(message)

    async def release(self) -> None:
        if self._last is not None:
            await self._send(self._last)


def _credentials(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes | None]]:
    """The header and the key of every header that may hold one; None for another kind of authorization."""
    credentials: list[tuple[bytes, bytes | None]] = []
    for name, value in headers:
        if name == b"x-api-key":
            credentials.append((name, value.strip()))
        elif name == b"authorization":
            kind, _, secret = value.strip().partition(b" ")
            credentials.append((name, secret.strip() if kind.lower() == b"bearer" else None))
    return credentials
