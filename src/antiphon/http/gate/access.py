"""Who may come in: every path needs a key, but for those that are named here."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.errors import AccessError, OverloadedError, RequestError
from antiphon.http.exchange import KEY, Exchange
from antiphon.http.paths import DOCS, PLAYGROUND, route_path
from antiphon.http.rules import Rules

from .browsers import BrowserGate
from .keys import ANYBODY, Keyring, Principal
from .keys import Scope as KeyScope
from .rates import Rates

PREFIXES = ("/v1", "", "/v1/v1")
"""Some clients drop the version from their base URL, some say it twice."""

OPEN = ("/health", "/livez", "/ping", "/readyz", "/version")
PUBLIC = frozenset(prefix + path for prefix in PREFIXES for path in OPEN) | {"/", "/api/version"}
PLAYGROUND_API = f"{PLAYGROUND}/api"
"""What the page requests of its own, below it."""
UNCOUNTED = (f"{PLAYGROUND_API}/tools", f"{PLAYGROUND_API}/progress/")
"""What the page looks at while an answer is made: no more work than `OPEN`, so it counts in no rate."""
METRICS = frozenset(prefix + "/metrics" for prefix in PREFIXES)
"""For the scope admin. Everything else is inference, routes of tomorrow too."""


class Access:
    """Looks at the path that the router will look at, never at a URL that is built from the Host header."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keyring,
        rates: Rates,
        rules: Rules,
        browsers: BrowserGate,
    ) -> None:
        self._app = app
        self._keys = keys
        self._rates = rates
        self._rules = rules
        self._browsers = browsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        exchange: Exchange = scope[KEY]
        path = route_path(scope)
        try:
            self._browsers.check(scope, exchange.headers, keyless=self._keys.open)
            if self._is_public(path):
                await self._app(scope, receive, send)
                return
            exchange.principal = self._admitted(path, scope)
            if scope["type"] == "websocket":
                await self._app(scope, receive, send)  # What comes over it are requests of their own.
            elif path in METRICS or path.startswith(UNCOUNTED):
                await self._app(scope, receive, send)
            else:
                await self._limited(exchange, scope, receive, send)
        except (
            AccessError,
            OverloadedError,
            RequestError,
        ) as error:  # Those of the application are answered inside of it.
            await exchange.refusal(error)(scope, receive, send)

    def _is_public(self, path: str) -> bool:
        if path.startswith(f"{PLAYGROUND_API}/"):
            return False
        if path in PUBLIC or path in (DOCS, PLAYGROUND) or path.startswith((f"{DOCS}/", f"{PLAYGROUND}/")):
            return True
        return self._rules.public_metrics and path in METRICS

    async def _limited(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        owner = exchange.owner
        exchange.also = lambda: self._rates.headers(owner)
        answer = _LastHeldBack(send)
        try:
            with self._rates.request(owner):
                await self._app(scope, receive, answer.send)
        finally:
            await answer.release()

    def _admitted(self, path: str, scope: Scope) -> Principal:
        if self._keys.open:
            return ANYBODY
        principal = self._principal(scope["headers"])
        required = KeyScope.ADMIN if path in METRICS else KeyScope.INFERENCE
        if required not in principal.scopes:
            raise AccessError(f"This key lacks the scope {required}.")
        return principal

    def _principal(self, headers: list[tuple[bytes, bytes]]) -> Principal:
        """Whose key was sent. One answer for whatever is wrong with it, so that nothing can be learned from trying.

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
