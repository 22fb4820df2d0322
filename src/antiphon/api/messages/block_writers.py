"""Content blocks that the model writes, one message each: as events, and whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.conversation import End, Message
from antiphon.tokens import well_formed
from antiphon.tools import ToolError, ToolResult
from antiphon.wire.definitions import BuiltIn, built_in
from antiphon.wire.encrypted import SEPARATOR
from antiphon.wire.projection import arguments_object, chat_name

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
    SignatureDelta,
    TextBlock,
    TextBlockDelta,
    ThinkingBlock,
    ThinkingBlockDelta,
    ToolUseBlock,
    WebFetchError,
    WebFetchResult,
    WebFetchToolResultBlock,
    WebSearchError,
    WebSearchResult,
    WebSearchToolResultBlock,
)
from .call_ids import to_client, to_server_client


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """A client's view of a turn. ``thinking``: it requested thinking blocks; ``exposed``: with their text.

    ``encrypt`` makes the signature of one; ``stops`` are the strings that it named. ``own`` are recipients of the
    client's, None: all are. Of the others the calls of those that are ``shown`` are blocks, and so are their results.
    """

    encrypt: Callable[[Message], str]
    thinking: bool = False
    exposed: bool = False
    stops: frozenset[str] = msgspec.field(default_factory=frozenset)
    own: frozenset[str] | None = None
    shown: frozenset[str] = msgspec.field(default_factory=frozenset)


class BlockWriter(Protocol):
    """One block: the events of its parts, and the block itself, None where a whole answer has none."""

    def begin(self) -> list[MessageEvent]: ...

    def add(self, text: str) -> list[MessageEvent]: ...

    def end(self, message: Message) -> list[MessageEvent]: ...

    def block(self, message: Message) -> AnswerBlock | None: ...


class TextWriter:
    """A block of text, which begins with its first character."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._text: list[str] = []

    def begin(self) -> list[MessageEvent]:
        return []

    def add(self, text: str) -> list[MessageEvent]:
        started = [] if self._text else [ContentBlockStart(self.index, TextBlock(text=""))]
        self._text.append(text)
        return [*started, ContentBlockDelta(self.index, TextBlockDelta(text))]

    def end(self, message: Message) -> list[MessageEvent]:
        return [ContentBlockStop(self.index)] if self._text else []

    def block(self, message: Message) -> AnswerBlock | None:
        return TextBlock(text="".join(self._text)) if self._text else None


class ThinkingWriter:
    """A block of thinking, with its text where that is shown, and always with the reasoning itself, encrypted."""

    def __init__(self, index: int, view: MessageView) -> None:
        self.index = index
        self._view = view
        self._begun = False
        self._text: list[str] = []
        self._signature = ""

    def begin(self) -> list[MessageEvent]:
        return []

    def add(self, text: str) -> list[MessageEvent]:
        events: list[MessageEvent] = []
        if not self._begun:
            self._begun = True
            events.append(ContentBlockStart(self.index, ThinkingBlock(thinking="", signature="")))
        if self._view.exposed:
            self._text.append(text)
            events.append(ContentBlockDelta(self.index, ThinkingBlockDelta(text)))
        return events

    def end(self, message: Message) -> list[MessageEvent]:
        if not self._begun:
            return []
        self._signature = self._view.encrypt(message)
        return [ContentBlockDelta(self.index, SignatureDelta(self._signature)), ContentBlockStop(self.index)]

    def block(self, message: Message) -> AnswerBlock | None:
        if not self._begun:
            return None
        return ThinkingBlock(thinking="".join(self._text), signature=self._signature)


class _Arguments:
    """A call's arguments as deltas. Blanks come with what follows them: alone they are no JSON."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._blanks: str | None = ""

    def deltas(self, text: str) -> list[MessageEvent]:
        if self._blanks is not None:
            text = self._blanks + text
            self._blanks = None if text.strip() else text
        return [ContentBlockDelta(self._index, InputJsonDelta(text))] if self._blanks is None else []


class ToolUseWriter:
    """A call, its arguments as the model writes them. One that was cut is no block of a whole answer."""

    def __init__(self, index: int, call: Message) -> None:
        self.index = index
        self._arguments = _Arguments(index)
        self._call = ToolUseBlock(id=to_client(call.call_id or f"call_{index}"), name=chat_name(call), input={})

    def begin(self) -> list[MessageEvent]:
        return [ContentBlockStart(self.index, self._call)]

    def add(self, text: str) -> list[MessageEvent]:
        return self._arguments.deltas(text)

    def end(self, message: Message) -> list[MessageEvent]:
        return [ContentBlockStop(self.index)]

    def block(self, message: Message) -> AnswerBlock | None:
        if message.end is End.NONE:
            return None
        return ToolUseBlock(id=self._call.id, name=self._call.name, input=arguments_object(message.text))


# Calls that the server runs, and their results, as blocks that the client sees: searches, pages, code.

CODES: Mapping[str, ServerToolErrorCode] = {
    "E-CALL-SCHEMA": "invalid_tool_input",
    "E-TOOL-BUSY": "too_many_requests",
}
"""Codes of this API for errors that any tool may have; other errors are named by their tool."""
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
        """Counts uses of the server's tools; UNSET where none were offered."""
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
        self._arguments = _Arguments(index)
        id = to_server_client(call.call_id or f"call_{index}")
        self._call = ServerToolUseBlock(id=id, name=_name_of(tool), input={})

    def begin(self) -> list[MessageEvent]:
        return [ContentBlockStart(self.index, self._call)]

    def add(self, text: str) -> list[MessageEvent]:
        return [] if self._plain else self._arguments.deltas(text)

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
