"""The SDK's callbacks for what servers ask: bounded and checked before the host sees it, and after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import jsonschema_rs
import msgspec
from mcp import types
from mcp.client.context import ClientRequestContext

from antiphon.errors import AntiphonError

from .host import Action, Elicit, Elicitation, ElicitationAnswer, Sample, SamplingMessage, SamplingRequest

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


class ElicitationCallback:
    """Forms of flat values, and addresses to visit (https only)."""

    def __init__(self, server: str, elicit: Elicit, requests: Requests) -> None:
        self._server = server
        self._elicit = elicit
        self._requests = requests

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        try:
            async with self._requests.one():
                return _result(*await self._answered(_read_elicitation(self._server, params)))
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


class SamplingCallback:
    """Text alone: no tools, no pictures, no context of other servers."""

    def __init__(self, server: str, sample: Sample, requests: Requests) -> None:
        self._server = server
        self._sample = sample
        self._requests = requests

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


def _result(action: Action, content: dict[str, Any] | None) -> types.ElicitResult:
    return types.ElicitResult(action=action, content=content)


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
