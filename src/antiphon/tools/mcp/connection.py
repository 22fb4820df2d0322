"""How sessions with one server are connected: its process or its address, its credentials, who answers its requests."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import jsonschema_rs
import msgspec
from mcp import Client, StdioServerParameters, types
from mcp.client import Transport
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Implementation

from antiphon.errors import AntiphonError
from antiphon.version import __version__

from .config import (
    OPERATOR,
    Action,
    Elicit,
    Elicitation,
    ElicitationAnswer,
    McpHost,
    McpOAuth,
    McpServer,
    Reach,
    Sample,
    SamplingMessage,
    SamplingRequest,
    ShowAddress,
)
from .fault import challenged
from .http import McpHttpClient
from .oauth_flow import Person, Tokens, driven, listening, provider_of, restore, stored
from .tokens import TokenEntry, TokenStore

# Signed in to an MCP server: OAuth 2.1 by the SDK's own client, with tokens that are stored between processes.

SIGN_IN_SECONDS = 300.0
SIGN_INS = 2
"""For one request: one because nobody is signed in, and one more for a scope that it needs."""
MARGIN = 10.0
"""Seconds before its end from which a token counts as expired."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Tokens of one owner for one server, and what may be done for new ones: ``show`` is there where a person is."""

    name: str
    url: str
    oauth: McpOAuth
    store: TokenStore
    show: ShowAddress | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)

    @property
    def can_sign_in(self) -> bool:
        return self.show is not None or self.oauth.grant == "client_credentials"

    async def token(self) -> str | None:
        """The access token, refreshed where it has expired; None where there is none. Raises what refreshing raises."""
        async with self.lock:
            entry = self.store.entry(self.url)
            return _access(entry) if _fresh(entry) else await self._flow(_expired(entry), None)

    async def another(self, used: str | None, challenge: httpx2.Response) -> str | None:
        """A token other than the one that ``challenge`` (401 or 403) did not take; None where there can be none."""
        async with self.lock:
            entry = self.store.entry(self.url)
            if _access(entry) != used and _fresh(entry):
                return _access(entry)  # another call, or another process, was faster
            renewed = None
            if challenge.status_code == 401 and (entry.token or {}).get("refresh_token"):
                renewed = await self._flow(_expired(entry), None)
            return renewed or (await self._flow(entry, challenge) if self.can_sign_in else None)

    async def sign_in(self, scopes: str) -> None:
        """Signs in with further scopes, though nothing asked for them yet. Raises what the flow raises."""
        header = f'Bearer error="insufficient_scope", scope="{scopes}"'
        challenge = httpx2.Response(403, headers={"www-authenticate": header}, request=httpx2.Request("POST", self.url))
        async with self.lock:
            await self._flow(self.store.entry(self.url), challenge)

    async def _flow(self, entry: TokenEntry, challenge: httpx2.Response | None) -> str | None:
        """The token after one flow of the SDK's: refreshing alone, or all that ``challenge`` sets off."""
        tokens = Tokens(entry, self.oauth)
        if challenge is not None:
            tokens.check_registration(challenged(challenge.headers.get("www-authenticate", "")).get("scope", ""))
        async with asyncio.timeout(SIGN_IN_SECONDS), self._person(tokens, challenge) as person:
            provider = provider_of(self.url, self.oauth, tokens, person)
            restore(provider, entry)
            token = await driven(provider, self.url, challenge, McpHttpClient(self.name))
        if tokens.changed:
            self.store.put(stored(tokens, provider))
        return token

    @asynccontextmanager
    async def _person(self, tokens: Tokens, challenge: httpx2.Response | None) -> AsyncGenerator[Person | None, None]:
        """Yields the person who signs in for ``challenge``, with an address to come back to; None without one."""
        show = self.show
        if challenge is None or show is None or self.oauth.grant == "client_credentials":
            yield None
            return
        async with listening(self.oauth.callback_port or tokens.port, tokens.forget_client) as callback:
            yield Person(lambda address: show(self.name, address), callback)


class McpAuth(httpx2.Auth):
    """Puts the token on every request, and gets another one for a 401, or for a 403 that names what is missing."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._credentials.token()
        response = yield _bearing(request, token)
        for _ in range(SIGN_INS):
            if not _asks_for_another(response):
                return
            another = await self._credentials.another(token, response)
            if another is None or another == token:
                return
            token = another
            response = yield _bearing(request, token)


def _asks_for_another(response: httpx2.Response) -> bool:
    if response.status_code == 403:
        return challenged(response.headers.get("www-authenticate", "")).get("error") == "insufficient_scope"
    return response.status_code == 401


def _bearing(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["authorization"] = f"Bearer {token}"
    return request


def _access(entry: TokenEntry) -> str | None:
    token = (entry.token or {}).get("access_token")
    return token if isinstance(token, str) else None


def _expired(entry: TokenEntry) -> TokenEntry:
    return msgspec.structs.replace(entry, expires_at=1.0)


def _fresh(entry: TokenEntry) -> bool:
    """Whether the token counts, or there is none that could be refreshed."""
    token = entry.token or {}
    expired = entry.expires_at is not None and time.time() > entry.expires_at - MARGIN
    return not (expired and token.get("refresh_token"))


# The SDK's callbacks for what servers ask: bounded and checked before the host sees it, and after.

MAX_MESSAGE = 8_000
"""Characters of what a server tells the user."""
MAX_FIELDS = 32
MAX_FORM = 65_536
"""Bytes of a form's schema."""
MAX_REQUESTS = 100
"""Requests that one session may make in its life: a server that goes on asking is a nuisance, or an attack."""
MAX_SAMPLED_MESSAGES = 64
MAX_SAMPLED_TEXT = 200_000
MAX_SAMPLED_TOKENS = 4_096
MAX_STOPS = 16
_KINDS = frozenset({"string", "number", "integer", "boolean", "array"})


class Requests:
    """The requests of one session, one at a time and so many in all."""

    def __init__(self) -> None:
        self._left = MAX_REQUESTS
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """When it is this one's turn. Raises ValueError for one too many."""
        async with self._turn:
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"no more than {MAX_REQUESTS} requests are answered in a session")
            yield


@dataclass(frozen=True, slots=True)
class ElicitationCallback:
    """Forms of flat values, and addresses to visit (https only)."""

    _server: str
    _elicit: Elicit
    _requests: Requests

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        try:
            async with self._requests.one():
                action, content = await self._answered(_read_elicitation(self._server, params))
                return types.ElicitResult(action=action, content=content)
        except ValueError as refusal:
            return _error(types.INVALID_PARAMS, str(refusal))

    async def _answered(self, elicitation: Elicitation) -> tuple[Action, dict[str, Any] | None]:
        """Gives the host's answer, checked against the form. Raises ValueError."""
        answer: ElicitationAnswer = await self._elicit(elicitation)
        if answer.action != "accept" or elicitation.url is not None:
            return answer.action, None
        content = dict(answer.content or {})
        jsonschema_rs.validator_for(dict(elicitation.schema), offline=True).validate(content)
        return answer.action, content


@dataclass(frozen=True, slots=True)
class SamplingCallback:
    """Text alone: no tools, no pictures, no context of other servers."""

    _server: str
    _sample: Sample
    _requests: Requests

    async def __call__(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        try:
            async with self._requests.one():
                answer = await self._sample(_read_sampling(self._server, params))
        except ValueError as refusal:
            return _error(types.INVALID_PARAMS, str(refusal))
        except AntiphonError as error:
            return _error(types.INTERNAL_ERROR, f"{error.code}: {error.message}")
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=answer.text),
            model=answer.model,
            stop_reason="endTurn" if answer.complete else "maxTokens",
        )


def _error(number: int, message: str) -> types.ErrorData:
    return types.ErrorData.model_validate({"code": number, "message": message[:500]})


def _read_elicitation(server: str, params: types.ElicitRequestParams) -> Elicitation:
    """Raises ValueError for what is too long, no form of flat values, or no address of the web."""
    if len(params.message) > MAX_MESSAGE:
        raise ValueError(f"the message is longer than {MAX_MESSAGE} characters")
    if isinstance(params, types.ElicitRequestURLParams):
        if not params.url.startswith("https://") or len(params.url) > MAX_MESSAGE or not params.url.isprintable():
            raise ValueError("the url is no https address")
        return Elicitation(server, params.message, url=params.url)
    schema = dict(params.requested_schema)
    _check_form(schema)
    return Elicitation(server, params.message, schema)


def _check_form(schema: Mapping[str, Any]) -> None:
    """A form is an object of values that have no parts, but for lists of choices."""
    fields = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(fields, Mapping):
        raise ValueError("requestedSchema is no object with properties")
    if len(fields) > MAX_FIELDS or len(msgspec.json.encode(schema)) > MAX_FORM:
        raise ValueError(f"requestedSchema has more than {MAX_FIELDS} properties, or more than {MAX_FORM} bytes")
    for name, value in fields.items():
        if not isinstance(value, Mapping) or value.get("type") not in _KINDS:
            raise ValueError(f"the property {str(name)[:100]!r} of requestedSchema is no plain value")
    try:
        jsonschema_rs.validator_for(dict(schema), offline=True)
    except Exception as error:
        raise ValueError("requestedSchema is no JSON Schema") from error


def _read_sampling(server: str, params: types.CreateMessageRequestParams) -> SamplingRequest:
    """Raises ValueError for what is too much, or more than text."""
    if params.tools or params.tool_choice:
        raise ValueError("tools are not offered in sampling")
    if params.include_context not in (None, "none"):
        raise ValueError("includeContext is not honoured: a server sees what it sends and nothing else")
    stops = tuple(params.stop_sequences or ())
    if not 0 < len(params.messages) <= MAX_SAMPLED_MESSAGES or len(stops) > MAX_STOPS:
        raise ValueError(f"1 to {MAX_SAMPLED_MESSAGES} messages and at most {MAX_STOPS} stop sequences are taken")
    messages = tuple(SamplingMessage(message.role, _text(message)) for message in params.messages)
    size = sum(len(message.text) for message in messages) + len(params.system_prompt or "") + sum(map(len, stops))
    if size > MAX_SAMPLED_TEXT:
        raise ValueError(f"the texts have more than {MAX_SAMPLED_TEXT} characters")
    if params.max_tokens < 1:
        raise ValueError("maxTokens must be 1 or more")
    return SamplingRequest(
        server=server,
        messages=messages,
        system=params.system_prompt,
        max_tokens=min(params.max_tokens, MAX_SAMPLED_TOKENS),
        temperature=params.temperature,
        stop=stops,
    )


def _text(message: types.SamplingMessage) -> str:
    blocks = message.content_as_list
    if not all(isinstance(block, types.TextContent) for block in blocks):
        raise ValueError("only text is taken in sampling")
    return "\n".join(block.text for block in blocks if isinstance(block, types.TextContent))


CALL_SECONDS = 300.0


NOT_STARTED = frozenset({errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC})
"""Errors of a command that the system cannot run."""


class Connector:
    """Makes connections with one server; they share its credentials, so that a token is refreshed once."""

    def __init__(
        self, name: str, server: McpServer, host: McpHost, tokens: TokenStore | None, reach: Reach = OPERATOR
    ) -> None:
        self._name = name
        self._reach = reach
        self._server = server
        self._host = host
        self._credentials = _credentials(name, server, host, tokens)

    async def sign_in(self, scopes: str) -> None:
        """Signs in with scopes, though no answer named them. Raises what the sign-in raises."""
        if self._credentials is not None:
            await self._credentials.sign_in(scopes)

    def http_client(self) -> McpHttpClient | None:
        """A client for the server's address; None for one that is a process."""
        if self._server.url is None:
            return None
        auth = McpAuth(self._credentials) if self._credentials else None
        return McpHttpClient(self._name, headers=dict(self._server.headers), auth=auth, reach=self._reach)

    @asynccontextmanager
    async def connected(self, http: McpHttpClient | None) -> AsyncGenerator[Client, None]:
        """A client with its session, until the block is left."""
        if http is None:
            try:
                async with self._client(self._process()) as client:
                    yield client
            except OSError as error:
                if error.errno in NOT_STARTED:  # uvloop names no file
                    error.filename = error.filename or self._server.command
                raise
            return
        url, largest = self._server.url or "", self._reach.body
        transport = streamable_http_client(url, http_client=http, max_sse_event_size=largest)
        async with http, self._client(transport) as client:
            if not self._reach.checked:
                vars(client.session)["validate_tool_result"] = _unchecked
            yield client

    def _client(self, target: Transport | StdioServerParameters) -> Client:
        elicit, sample, requests = self._host.elicit, self._host.sample, Requests()
        return Client(
            target,
            read_timeout_seconds=CALL_SECONDS,
            client_info=Implementation(name="antiphon", version=__version__),
            elicitation_callback=ElicitationCallback(self._name, elicit, requests) if elicit else None,
            sampling_callback=SamplingCallback(self._name, sample, requests)
            if sample and self._server.sampling
            else None,
        )

    def _process(self) -> StdioServerParameters:
        server = self._server
        return StdioServerParameters(
            command=server.command or "", args=list(server.args), env=dict(server.env) or None, cwd=server.cwd
        )


async def _unchecked(name: str, result: CallToolResult) -> None:
    """In place of the SDK's comparison, in which a server's own patterns would be searched for as long as it likes."""


def _credentials(name: str, server: McpServer, host: McpHost, tokens: TokenStore | None) -> Credentials | None:
    """Gives the credentials, or None where there is nothing to sign in to, or the operator's headers do it."""
    signed_in = any(header.lower() == "authorization" for header in server.headers)
    if server.url is None or signed_in or tokens is None:
        return None
    return Credentials(name, server.url, server.oauth, tokens, host.sign_in)
