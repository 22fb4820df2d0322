"""Calls that the server runs, and their results, as blocks that the client sees: searches, pages, code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.conversation import End, Message
from antiphon.tokens import well_formed
from antiphon.tools import ToolError, ToolResult
from antiphon.wire.built_in import BuiltIn, built_in
from antiphon.wire.encrypted import SEPARATOR

from .answer_schema import (
    AnswerBlock,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionToolResultBlock,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    DocumentBlock,
    InputJsonDelta,
    MessageEvent,
    PlainTextSource,
    ServerToolErrorCode,
    ServerToolName,
    ServerToolResultBlock,
    ServerToolUsage,
    ServerToolUseBlock,
    WebFetchError,
    WebFetchResult,
    WebFetchToolResultBlock,
    WebSearchError,
    WebSearchResult,
    WebSearchToolResultBlock,
)
from .block_writers import MessageView, arguments_object
from .call_ids import to_server_client

CODES: Mapping[str, ServerToolErrorCode] = {
    "E-CALL-SCHEMA": "invalid_tool_input",
    "E-TOOL-BUSY": "too_many_requests",
}
"""What errors of any tool are in this API's words; others are named by their tool."""
CODE = "code"
"""The argument that has the code to run."""


@dataclass(slots=True)
class ServerCalls:
    """The calls of one answer that run here and that its client sees."""

    view: MessageView
    _open: dict[str, tuple[ServerToolUseBlock, Message]] = field(default_factory=dict)
    _counts: dict[ServerToolName, int] = field(default_factory=dict)

    @property
    def usage(self) -> ServerToolUsage | UnsetType:
        """What was used; there where such tools were offered."""
        if not self.view.shown:
            return UNSET
        return ServerToolUsage(
            web_search_requests=self._counts.get("web_search", 0), web_fetch_requests=self._counts.get("web_fetch", 0)
        )

    def open(self, block: ServerToolUseBlock, call: Message) -> None:
        """A call that waits for its result."""
        self._open[call.call_id or ""] = block, call

    def result(self, result: ToolResult) -> ServerToolResultBlock | None:
        """The block of a result; None where the client does not see the call."""
        if result.call.call_id not in self._open:
            return None
        use, call = self._open.pop(result.call.call_id)
        self._counts[use.name] = self._counts.get(use.name, 0) + result.ok
        match use.name:
            case "web_search":
                return _search(use, call, result, self.view.encrypt)
            case "web_fetch":
                return _page(use, result)
            case "code_execution":
                return _execution(use, result)


class ServerUseWriter:
    """A call that runs here, its arguments as the model writes them; code, which is no JSON, when it is whole."""

    def __init__(self, index: int, call: Message, calls: ServerCalls) -> None:
        tool = built_in(call.recipient or "")
        assert tool is not None, "only built-in tools are shown"
        self.index = index
        self._plain = tool.name == "python" and not tool.wrapped
        self._calls = calls
        id = to_server_client(call.call_id or f"call_{index}")
        self._call = ServerToolUseBlock(id=id, name=_name_of(tool), input={})

    def begin(self) -> list[MessageEvent]:
        return [ContentBlockStart(self.index, self._call)]

    def add(self, text: str) -> list[MessageEvent]:
        return [] if self._plain else [ContentBlockDelta(self.index, InputJsonDelta(text))]

    def end(self, message: Message) -> list[MessageEvent]:
        self._calls.open(self._call, message)
        stop = ContentBlockStop(self.index)
        if not self._plain:
            return [stop]
        code = msgspec.json.encode({CODE: _code_of(message)}).decode()
        return [ContentBlockDelta(self.index, InputJsonDelta(code)), stop]

    def block(self, message: Message) -> AnswerBlock | None:
        if message.end is End.NONE:
            return None
        given = {CODE: _code_of(message)} if self._plain else arguments_object(message.text)
        return ServerToolUseBlock(id=self._call.id, name=self._call.name, input=given)


def _code_of(call: Message) -> str:
    return str(well_formed(call.text))


def _name_of(tool: BuiltIn) -> ServerToolName:
    if tool.name == "python":
        return "code_execution"
    return "web_search" if tool.function == "search" else "web_fetch"


def _search(
    use: ServerToolUseBlock, call: Message, result: ToolResult, encrypt: Callable[[Message], str]
) -> WebSearchToolResultBlock:
    if result.output is None:
        return WebSearchToolResultBlock(tool_use_id=use.id, content=WebSearchError(_code(result.error, "unavailable")))
    found = result.output.provenance
    pages = zip(_texts(found.get("links")), _texts(found.get("titles")), strict=False)
    read = SEPARATOR.join(map(encrypt, (call, result.message())))
    content = [
        WebSearchResult(url=url, title=title, encrypted_content="" if i else read)
        for i, (url, title) in enumerate(pages)
    ]
    return WebSearchToolResultBlock(tool_use_id=use.id, content=content)


def _page(use: ServerToolUseBlock, result: ToolResult) -> WebFetchToolResultBlock:
    if result.output is None:
        return WebFetchToolResultBlock(
            tool_use_id=use.id, content=WebFetchError(_code(result.error, "url_not_accessible"))
        )
    url, title = _texts([result.output.provenance.get(name, "") for name in ("source", "title")])
    document = DocumentBlock(source=PlainTextSource(data=result.text(envelope=False)), title=title)
    return WebFetchToolResultBlock(tool_use_id=use.id, content=WebFetchResult(url=url, content=document))


def _execution(use: ServerToolUseBlock, result: ToolResult) -> CodeExecutionToolResultBlock:
    if result.output is None:
        late = result.error is not None and result.error.code == "E-TOOL-TIMEOUT"
        code = _code(result.error, "execution_time_exceeded" if late else "unavailable")
        return CodeExecutionToolResultBlock(tool_use_id=use.id, content=CodeExecutionError(code))
    ended = CodeExecutionResult(
        stdout=result.text(envelope=False), return_code=1 if result.output.provenance.get("return_code") else 0
    )
    return CodeExecutionToolResultBlock(tool_use_id=use.id, content=ended)


def _code(error: ToolError | None, otherwise: ServerToolErrorCode) -> ServerToolErrorCode:
    if error is None:
        return otherwise
    return "max_uses_exceeded" if "max_uses" in error.details else CODES.get(error.code, otherwise)


def _texts(values: object) -> list[str]:
    return [well_formed(str(value)) for value in values] if isinstance(values, list) else []
