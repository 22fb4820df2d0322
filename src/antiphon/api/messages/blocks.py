"""Content blocks of one message → frames of the conversation, in their order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from antiphon.api.chat.messages import arguments_text, recipient_of
from antiphon.conversation import (
    PARAGRAPH,
    Channel,
    End,
    Intent,
    Message,
    OpaquePart,
    Role,
    TextPart,
    ToolsPart,
    ToolSpec,
    text_and_parts,
)
from antiphon.conversation.calls import GivenCalls, make_answer, make_call
from antiphon.errors import RequestError
from antiphon.structs import ready
from antiphon.wire.documents import document, file_text
from antiphon.wire.errors import READS_TEXT, UNREADABLE, refused
from antiphon.wire.projection import arguments_as_written

from .call_ids import from_client
from .schema import InputBlock, MessageParam
from .server_history import SERVER_RESULTS, SERVER_USE, Decrypt, ServerHistory

BILLING = "x-anthropic-billing-header:"
"""How the text begins that Claude Code puts first and changes with each request; it is no part of a prompt."""
FAILED = "Error: "
TEXT_SOURCE = "Send its text: a source of type text or content."
KINDS = (
    "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "tool_reference", SERVER_USE, *SERVER_RESULTS
)  # fmt: skip
"""The blocks that are read, each in its place."""
_THOUGHTS = ("thinking", "redacted_thinking")
_TEXTLESS = ("container_upload", "audio", "video")
_DOCUMENTS = ("document", "search_result")


@dataclass(slots=True)
class BlockReader:
    """Reads one message after the other. ``ignored`` are the paths of what no frame has.

    ``framed``: the model's format has built-in tools. ``deferred``: tools that are defined where a result first refers
    to them, by name; ``listed``: the names of the others. ``defined``: the names of those that were.
    """

    decrypt: Decrypt
    framed: bool = True
    deferred: Mapping[str, ToolSpec] = field(default_factory=dict)
    listed: Collection[str] = ()
    defined: set[str] = field(default_factory=set)
    ignored: list[str] = field(default_factory=list)
    _calls: GivenCalls = field(default_factory=GivenCalls)

    @property
    def waiting(self) -> bool:
        """Whether calls have no result yet."""
        return bool(self._calls)

    def assistant(self, message: MessageParam, path: str, *, goes_on: bool) -> Iterator[Message]:
        """Its frames. Calls before it that nobody answered get an empty result, the same each time.

        ``goes_on``: another message of the assistant's stands before it.
        """
        if not goes_on:
            yield from self._unanswered()
        blocks = blocks_of(message)
        calls = [i for i, block in enumerate(blocks) if block.type in ("tool_use", SERVER_USE)]
        searches = ServerHistory(self.decrypt, self.framed).searches(blocks, path)
        texts: list[TextPart] = []
        for i, block in enumerate(blocks):
            at = f"{path}.content[{i}]"
            if block.type == "text":
                texts += _text_of(block, at)
                continue
            yield from _said(texts, calls, i)
            texts = []
            yield from self._assistants(block, at, searches)
        if texts or not blocks:
            yield from _said(texts or [TextPart("")], calls, len(blocks))

    def _assistants(
        self, block: InputBlock, path: str, searches: Mapping[str, tuple[Message, Message]]
    ) -> Iterator[Message]:
        """The frames of a block that is no text. ``searches``: those that ran here, as they were."""
        if block.type in _THOUGHTS:
            yield from self._thought(block, path)
        elif block.type == "tool_use":
            yield self._call(block, path)
        elif block.type == SERVER_USE:
            call = ServerHistory(self.decrypt, self.framed).call(block, path)
            self._calls.follow(call)
            yield searches[block.id or ""][0] if block.id in searches else call
        elif block.type in SERVER_RESULTS:
            id, recipient = self._answered(block, path)
            read = ServerHistory(self.decrypt, self.framed).result(block, recipient, id, path)
            yield searches[block.tool_use_id or ""][1] if block.tool_use_id in searches else read
        else:
            raise _unreadable(block, path, f"text, thinking, redacted_thinking, tool_use, {SERVER_USE} and its results")

    def user(self, message: MessageParam, path: str) -> Iterator[Message]:
        """The results first, wherever they are, then the rest. Nothing beside results is no frame."""
        blocks, parts = blocks_of(message), list[TextPart | OpaquePart]()
        results = 0
        for i, block in enumerate(blocks):
            at = f"{path}.content[{i}]"
            if block.type == "tool_result":
                results += 1
                yield self._result(block, at)
            elif block.type == "text":
                parts += _text_of(block, at)
            elif block.type == "image":
                parts.append(_image(block, at))
            elif block.type in _DOCUMENTS:
                parts += self._document(block, at)
            else:
                raise _unreadable(block, at, "text, image, document, search_result, tool_result")
        if parts or not results:
            yield from self._unanswered()
            text, several = text_and_parts(parts)
            yield Message(role=Role.USER, text=text, parts=several)

    def _document(self, block: InputBlock, path: str) -> Iterator[TextPart | OpaquePart]:
        """A document or a result of a search, under its title; its images behind it."""
        source = block.source if isinstance(block.source, dict) else {}
        match block.type, source.get("type"):
            case "search_result", _:
                heads, content = [block.title, block.source], block.content
            case _, "text":
                heads, content = [block.title, block.context], source.get("data")
            case _, "base64":
                heads, content = [block.title, block.context], file_text(source.get("data"), path, block.type)
            case _, "content":
                heads, content = [block.title, block.context], source.get("content")
            case _, kind:
                raise refused(
                    path, f"documents of source {str(kind)[:64]!r} cannot be read.", code=UNREADABLE, hint=TEXT_SOURCE
                )
        if content is None:
            raise refused(path, f"a {block.type} needs its text.", code="missing_required_parameter")
        if isinstance(block.citations, dict) and block.citations.get("enabled"):
            self.ignored.append(f"{path}.citations")
        parts = list(self._parts(content, f"{path}.content"))
        yield document([head for head in heads if isinstance(head, str)], text_and_parts(parts)[0])
        yield from (part for part in parts if isinstance(part, OpaquePart))

    def _parts(self, content: Any, path: str, *, refers: bool = False) -> Iterator[TextPart | OpaquePart]:
        """The parts of a content: a text, or blocks. None has none. ``refers``: it may refer to tools."""
        if isinstance(content, str):
            yield TextPart(content)
            return
        try:
            blocks = msgspec.convert(content, ready(list[InputBlock] | None), from_attributes=True)
        except msgspec.ValidationError:
            raise refused(path, "must be a text, or blocks.", code="invalid_type") from None
        for i, block in enumerate(blocks or ()):
            at = f"{path}[{i}]"
            yield from self._document(block, at) if block.type in _DOCUMENTS else [self._part(block, at, refers=refers)]

    def _part(self, block: InputBlock, path: str, *, refers: bool) -> TextPart | OpaquePart:
        """An image, a text, or the definition of a tool: its name where that stands in the prompt already."""
        match block.type:
            case "image":
                return _image(block, path)
            case "text" if block.text is not None:
                return TextPart(block.text)
            case "text":
                raise refused(f"{path}.text", "a text block needs it.", code="missing_required_parameter")
            case "tool_reference" if refers:
                name = block.tool_name or ""
            case _:
                known = "text, image, document, search_result"
                raise _unreadable(block, path, f"{known}, tool_reference" if refers else known)
        if name in self.deferred and name not in self.defined:
            self.defined.add(name)
            return ToolsPart.of([self.deferred[name]])
        if name in self.defined or name in self.listed:
            return TextPart(f"{name}\n")
        raise refused(f"{path}.tool_name", f"no tool is named {name[:64]!r}.", hint="Send it in tools, too.")

    def system(self, message: MessageParam, path: str) -> str:
        """The operator's text; empty where it is only the client's own line."""
        if isinstance(message.content, str):
            return without_billing(message.content)
        places = [(block, f"{path}.content[{i}]") for i, block in enumerate(message.content)]
        return "".join(part.text for block, at in places for part in _system_part(block, at))

    def _unanswered(self) -> Iterator[Message]:
        for id, recipient in self._calls.take_all():
            yield make_answer(recipient, id)

    def _thought(self, block: InputBlock, path: str) -> Iterator[Message]:
        """The frame that its signature holds, where this server wrote it and the text is the same; else the text."""
        sealed = self._sealed(block.data if block.type == "redacted_thinking" else block.signature, path)
        text = block.thinking or ""
        if sealed is not None and text in ("", sealed.text):
            yield sealed
        elif text:
            yield Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS, text=text)
        else:
            self.ignored.append(path)

    def _sealed(self, signature: str | None, path: str) -> Message | None:
        if not signature:
            return None
        try:
            message = self.decrypt(signature, path)
        except RequestError:  # Histories come from other servers, too.
            return None
        if message.is_call or message.channel != Channel.ANALYSIS:
            return None
        return replace(message, end=End.END) if message.end is End.NONE else message

    def _call(self, block: InputBlock, path: str) -> Message:
        if not block.id or block.name is None:
            name = "name" if block.id else "id"
            raise refused(f"{path}.{name}", "a tool_use needs it.", code="missing_required_parameter")
        call = make_call(recipient_of(block.name), _input(block.input, f"{path}.input"), from_client(block.id))
        self._calls.follow(call)
        return call

    def _answered(self, block: InputBlock, path: str) -> tuple[str, str]:
        """The call that a result answers: its id, and its recipient."""
        if not block.tool_use_id:
            raise refused(f"{path}.tool_use_id", f"a {block.type} needs it.", code="missing_required_parameter")
        id = from_client(block.tool_use_id)
        if block.type in SERVER_RESULTS and self._calls.recipient(id) is None:
            raise refused(f"{path}.tool_use_id", f"no {SERVER_USE} {block.tool_use_id[:80]!r} waits for it.")
        return id, self._calls.answer(id)

    def _result(self, block: InputBlock, path: str) -> Message:
        id, recipient = self._answered(block, path)
        parts = [*self._parts(block.content, f"{path}.content", refers=True)]
        if defined := [tool for part in parts if isinstance(part, ToolsPart) for tool in part.tools]:
            others = [part for part in parts if not isinstance(part, ToolsPart)]
            parts = [*others, *([TextPart(PARAGRAPH)] if others else []), ToolsPart.of(defined)]
        result = make_answer(recipient, id, parts)
        return _failed(result) if block.is_error else result


def without_billing(text: str) -> str:
    """A system text without the line that Claude Code changes with each request, so that prompts go on as they were."""
    return text.partition("\n")[2] if text.startswith(BILLING) else text


def blocks_of(message: MessageParam) -> Sequence[InputBlock]:
    if isinstance(message.content, str):
        return [InputBlock(type="text", text=message.content)]
    return message.content


def _system_part(block: InputBlock, path: str) -> Iterator[TextPart]:
    if block.type != "text":
        raise _unreadable(block, path, "text")
    if not (block.text or "").startswith(BILLING):
        yield from _text_of(block, path)


def _said(texts: Sequence[TextPart], calls: Sequence[int], place: int) -> Iterator[Message]:
    """Adjacent text blocks, which are one frame: an announcement where a call of the message follows."""
    if not texts:
        return
    if calls and calls[-1] >= place:
        text = "".join(part.text for part in texts)
        yield Message(role=Role.ASSISTANT, channel=Channel.COMMENTARY, intent=Intent.PREAMBLE, text=text)
        return
    text, several = text_and_parts(texts)
    yield Message(role=Role.ASSISTANT, channel=Channel.FINAL, text=text, parts=several)


def _image(block: InputBlock, path: str) -> OpaquePart:
    return OpaquePart(block.type, {"type": block.type, "source": block.source}, path)


def _text_of(block: InputBlock, path: str) -> Iterator[TextPart]:
    """The text; an empty one is nothing."""
    if block.text is None:
        raise refused(f"{path}.text", "a text block needs it.", code="missing_required_parameter")
    if block.text:
        yield TextPart(block.text)


def _input(raw: msgspec.Raw, path: str) -> str:
    """A call's arguments as the client spelt them: they are text of the prompt."""
    data = bytes(raw)
    if data == b"null":
        raise refused(path, "a tool_use needs it.", code="missing_required_parameter")
    if not data.startswith(b"{"):
        raise refused(path, "must be an object.", code="invalid_type")
    return arguments_text(arguments_as_written(raw), path)


def _failed(result: Message) -> Message:
    """A result that the model can tell from one that is good."""
    marked = result.text.lstrip().lower().startswith("error")
    text = result.text if marked else FAILED + result.text
    parts = result.parts if marked or not result.parts else (TextPart(FAILED), *result.parts)
    return replace(result, text=text, parts=parts, extra={"is_error": True})


def _unreadable(block: InputBlock, path: str, known: str) -> RequestError:
    textless = block.type in _TEXTLESS
    return refused(
        path,
        f"blocks of type {block.type[:64]!r} cannot be read here.",
        code="unsupported_content" if textless else "invalid_value",
        hint=READS_TEXT if textless else f"Known: {known}.",
    )
