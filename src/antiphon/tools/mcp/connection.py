"""How sessions with one server are connected: its process or its address, its credentials, who answers its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

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
    McpServer,
    Reach,
    Sample,
    SamplingMessage,
    SamplingRequest,
)
from .http import McpHttpClient
from .oauth import Credentials, McpAuth
from .tokens import TokenStore

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
    for name, field in fields.items():
        if not isinstance(field, Mapping) or field.get("type") not in _KINDS:
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
            async with self._client(self._process()) as client:
                yield client
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
