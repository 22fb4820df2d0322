"""The present, for the page: the tools that run at the server, and how far an answer is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.openapi.parts import Described, named, operation
from antiphon.api.responses.following import ResponseRun
from antiphon.conversation import ToolSpec
from antiphon.errors import NotFoundError
from antiphon.http.context import Context
from antiphon.http.exchange import KEY, Exchange, json_response
from antiphon.http.journal import run_key
from antiphon.tools import Offer

from .routes import PROGRESS, TOOLS

RESPONSES_TOOLS: dict[str, dict[str, Any]] = {
    "browser": {"type": "web_search"},
    "python": {"type": "code_interpreter", "container": {"type": "auto"}},
}
"""How a request of the Responses API lists the built-in tools."""


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the server, or all of one MCP server.

    ``name`` is what ``server_tools`` of chat completions takes, ``responses`` what ``tools`` of Responses takes,
    null where that has no word for it. ``functions`` are its parts.
    """

    name: str
    responses: dict[str, Any] | None
    functions: list[str]


class ListedTools(msgspec.Struct, frozen=True, kw_only=True):
    """``offered``: requests that list none get all of them."""

    offered: bool
    tools: list[ListedTool]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Of one answer; ``waiting`` requests are in the queue, ``completion_tokens`` were sampled so far."""

    status: str
    waiting: int
    completion_tokens: int


class Now:
    """The two routes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def tools(self, request: Request) -> Response:
        tools = self._context.tools
        listed = [] if tools is None else list(_listed(tools.offered(builtins=True)))
        return json_response(ListedTools(offered=self._context.offer_tools, tools=listed))

    async def progress(self, request: Request) -> Response:
        """The progress of a response that this server makes for the same key. Raises `NotFoundError` for any other."""
        exchange: Exchange = request.scope[KEY]
        run = self._context.runs.get(run_key(exchange.owner, request.path_params["id"]))
        if not isinstance(run, ResponseRun) or run.over:
            raise NotFoundError("This server makes no such response now.")
        waiting, tokens = self._context.admission.waiting, run.counted()
        return json_response(Progress(status=run.response.status, waiting=waiting, completion_tokens=tokens))


def _listed(offer: Offer) -> Iterator[ListedTool]:
    for space in offer.builtins:
        yield ListedTool(name=space.name, responses=RESPONSES_TOOLS.get(space.name), functions=_names(space.tools))
    servers: dict[str, list[str]] = {}
    for spec in offer.specs:
        label, _, name = spec.name.partition("__")
        if name:
            servers.setdefault(label, []).append(name)
        else:
            yield ListedTool(name=spec.name, responses=None, functions=[])
    for label, names in servers.items():
        yield ListedTool(name=label, responses={"type": "mcp", "server_label": label}, functions=names)


def _names(specs: Sequence[ToolSpec]) -> list[str]:
    return [spec.name for spec in specs]


DESCRIBED = Described(
    kinds=(ListedTools, Progress),
    paths={
        TOOLS: {"get": operation("The tools that run at the server.", ListedTools)},
        f"{PROGRESS}/{{id}}": {"get": {**operation("How far a response is.", Progress), "parameters": [named("id")]}},
    },
)
