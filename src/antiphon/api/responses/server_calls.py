"""Output items of calls that the server runs: the browser, the sandbox, every other tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from antiphon.conversation import Message, TokenLogprob
from antiphon.tools import ToolResult
from antiphon.wire.projection import json_object

from .event_schema import (
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    CodeInterpreterCallCompleted,
    CodeInterpreterCallInProgress,
    CodeInterpreterCallInterpreting,
    McpCallArgumentsDelta,
    McpCallArgumentsDone,
    McpCallCompleted,
    McpCallFailed,
    McpCallInProgress,
    StreamEvent,
    WebSearchCallCompleted,
    WebSearchCallInProgress,
    WebSearchCallSearching,
)
from .item_schema import (
    CodeInterpreterCallItem,
    CodeLogs,
    McpCallItem,
    McpFailure,
    Status,
    WebSearchCallItem,
)
from .open_items import OpenItem, Place, item_added, item_done


class OpenServerCall(OpenItem, Protocol):
    """A call that the server runs: after the model has written it, a tool takes it and answers."""

    def running(self) -> list[StreamEvent]: ...

    def answered(self, result: ToolResult) -> list[StreamEvent]: ...


class OpenWebSearch:
    """A call of the browser. What it does is known once its arguments are whole, so it begins then.

    ``sources``: whether the client requested the addresses that a search found.
    """

    def __init__(self, place: Place, function: str, *, sources: bool = False) -> None:
        self.place = place
        self._includes_sources = sources
        self._function = function
        self._action: dict[str, Any] = {"type": "search", "query": ""}

    def begin(self) -> list[StreamEvent]:
        return []

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        return []

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        self._action = _action(self._function, json_object(message.text))
        return [item_added(self), WebSearchCallInProgress(**self.place.at)]

    def running(self) -> list[StreamEvent]:
        return [WebSearchCallSearching(**self.place.at)]

    def answered(self, result: ToolResult) -> list[StreamEvent]:
        source = result.output.provenance.get("source") if result.output else None
        if isinstance(source, str) and self._action["type"] != "search":
            self._action = {**self._action, "url": source}
        if self._includes_sources and self._action["type"] == "search":
            links = result.output.provenance.get("links", ()) if result.output else ()
            self._action = {**self._action, "sources": [{"type": "url", "url": link} for link in links]}
        status: Status = "completed" if result.ok else "failed"
        return [WebSearchCallCompleted(**self.place.at), item_done(self, status)]

    def item(self, status: Status) -> WebSearchCallItem:
        return WebSearchCallItem(id=self.place.id, status=status, action=self._action)


class OpenCodeInterpreter:
    """Code that the model ran in the sandbox. ``outputs``: whether the client requested what it printed.

    ``wrapped``: the code comes as a function's argument, so it is sent when it is whole.
    """

    def __init__(self, place: Place, container_id: str, *, outputs: bool, wrapped: bool = False) -> None:
        self.place = place
        self._wrapped = wrapped
        self._container_id = container_id
        self._includes_outputs = outputs
        self._outputs: list[CodeLogs] | None = None
        self._code: list[str] = []

    def begin(self) -> list[StreamEvent]:
        return [item_added(self), CodeInterpreterCallInProgress(**self.place.at)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        if self._wrapped:
            return []
        self._code.append(text)
        return [CodeInterpreterCallCodeDelta(**self.place.at, delta=text)]

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if self._wrapped:
            self._code = [str(json_object(message.text).get("code", message.text))]
            events.append(CodeInterpreterCallCodeDelta(**self.place.at, delta=self._code[0]))
        return [*events, CodeInterpreterCallCodeDone(**self.place.at, code="".join(self._code))]

    def running(self) -> list[StreamEvent]:
        return [CodeInterpreterCallInterpreting(**self.place.at)]

    def answered(self, result: ToolResult) -> list[StreamEvent]:
        if self._includes_outputs:
            self._outputs = [CodeLogs(result.text(envelope=False))]
        status: Status = "completed" if result.ok else "failed"
        return [CodeInterpreterCallCompleted(**self.place.at), item_done(self, status)]

    def item(self, status: Status) -> CodeInterpreterCallItem:
        return CodeInterpreterCallItem(
            id=self.place.id,
            code="".join(self._code),
            container_id=self._container_id,
            outputs=self._outputs,
            status=status,
        )


class OpenMcpCall:
    """A call of any other tool of the server's, or of a client's MCP server; ``approval`` is the id of its request."""

    def __init__(self, place: Place, server_label: str, name: str, approval: str | None = None) -> None:
        self.place = place
        self._approval = approval
        self._server_label = server_label
        self._name = name
        self._arguments: list[str] = []
        self._output: str | None = None
        self._error: McpFailure | None = None

    def begin(self) -> list[StreamEvent]:
        return [item_added(self), McpCallInProgress(**self.place.at)]

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> list[StreamEvent]:
        self._arguments.append(text)
        return [McpCallArgumentsDelta(**self.place.at, delta=text)]

    def end(self, message: Message, status: Status) -> list[StreamEvent]:
        return [McpCallArgumentsDone(**self.place.at, arguments="".join(self._arguments))]

    def running(self) -> list[StreamEvent]:
        return []

    def answered(self, result: ToolResult) -> list[StreamEvent]:
        if result.error is not None:
            self._error = McpFailure(result.error.message, result.error.code)
            return [McpCallFailed(**self.place.at), item_done(self, "failed")]
        self._output = result.text(envelope=False)
        return [McpCallCompleted(**self.place.at), item_done(self, "completed")]

    def item(self, status: Status) -> McpCallItem:
        return McpCallItem(
            id=self.place.id,
            server_label=self._server_label,
            name=self._name,
            arguments="".join(self._arguments),
            approval_request_id=self._approval,
            output=self._output,
            error=self._error,
            status=status,
        )


def _action(function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    match function:
        case "open":
            id = arguments.get("id")
            return {"type": "open_page", "url": id if isinstance(id, str) else None}
        case "find":
            return {"type": "find_in_page", "pattern": str(arguments.get("pattern", "")), "url": ""}
        case _:
            query = str(arguments.get("query", ""))
            return {"type": "search", "query": query, "queries": [query]}
