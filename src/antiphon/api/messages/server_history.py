"""Calls that ran in a server, and their results, as they come back in a history → frames of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.conversation import Channel, Message, Role, TextPart
from antiphon.conversation.calls import make_answer, make_call
from antiphon.errors import RequestError
from antiphon.generation.reply import canonical
from antiphon.wire.definitions import BuiltIn, built_in
from antiphon.wire.encrypted import SEPARATOR
from antiphon.wire.errors import refused

from .call_ids import from_client
from .schema import InputBlock

SERVER_USE = "server_tool_use"
SERVER_RESULTS = ("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result")
NAMES = ("web_search", "web_fetch", "code_execution")
NOTHING_FOUND = "No results."
Decrypt = Callable[[str, str], Message]
"""The reasoning of a signature that stands at a path; `RequestError` for what this server did not write."""


class ServerHistory(msgspec.Struct, frozen=True):
    """Reads the blocks of one message. ``framed``: the model's format has built-in tools, called in analysis."""

    decrypt: Decrypt
    framed: bool

    @property
    def _channel(self) -> Channel:
        return Channel.ANALYSIS if self.framed else Channel.COMMENTARY

    def searches(self, blocks: Sequence[InputBlock], path: str) -> dict[str, tuple[Message, Message]]:
        """The searches that this server made, as they were, by the ids of their blocks."""
        uses = {block.id: block for block in blocks if block.type == SERVER_USE}
        found: dict[str, tuple[Message, Message]] = {}
        for i, block in enumerate(blocks):
            use = uses.get(block.tool_use_id)
            if block.type != SERVER_RESULTS[0] or use is None or not use.id:
                continue
            if (run := self._search(block, use, f"{path}.content[{i}]")) is not None:
                found[use.id] = run
        return found

    def call(self, block: InputBlock, path: str) -> Message:
        """The call of a ``server_tool_use``. Raises `RequestError` for a tool of another kind."""
        for name in ("id", "name"):
            if not getattr(block, name):
                raise refused(f"{path}.{name}", "a server_tool_use needs it.", code="missing_required_parameter")
        if block.name not in NAMES:
            message = f"calls of {(block.name or '')[:64]!r} cannot be read here."
            raise refused(f"{path}.name", message, hint=f"Known: {', '.join(NAMES)}.")
        given = _object(block.input, f"{path}.input")
        tool = self._tool(block.name, given)
        plain = tool.name == "python" and not tool.wrapped
        text, kind = (str(given.get("code", "")), None) if plain else (bytes(block.input).decode(), "json")
        return make_call(tool.recipient, text, from_client(block.id or ""), kind=kind, channel=self._channel)

    def result(self, block: InputBlock, recipient: str, id: str, path: str) -> Message:
        """Makes the message of a result that the model read."""
        text = "".join(_read(block, f"{path}.content"))
        return make_answer(recipient, id, [TextPart(text)], channel=self._channel)

    def _tool(self, name: str, given: Mapping[str, Any]) -> BuiltIn:
        wrapped = not self.framed
        match name:
            case "code_execution":
                return BuiltIn("python", "", wrapped)
            case "web_search":
                return BuiltIn("browser", "search", wrapped)
            case _:
                return BuiltIn("browser", "find" if "pattern" in given else "open", wrapped)

    def _search(self, block: InputBlock, use: InputBlock, path: str) -> tuple[Message, Message] | None:
        """A search and its answer, where they came along, and where the call says what the block says."""
        first = block.content[0] if isinstance(block.content, list) and block.content else None
        parts = ((first.encrypted_content if first else None) or "").split(SEPARATOR)
        if len(parts) != 2:
            return None
        try:
            call, answer = (self.decrypt(part, f"{path}.content[0].encrypted_content") for part in parts)
        except RequestError:  # Histories come from other servers, too.
            return None
        tool = built_in(call.recipient or "") if call.is_call else None
        answers = answer.role is Role.TOOL and answer.call_id == call.call_id
        if tool is None or tool.function != "search" or tool.wrapped == self.framed or not answers:
            return None
        if canonical(call.text) != canonical(bytes(use.input).decode()):
            return None
        id = from_client(use.id or "")
        return replace(call, call_id=id), replace(answer, call_id=id)


def _object(raw: msgspec.Raw, path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise refused(path, "must be an object.", code="invalid_type") from None


def _read(block: InputBlock, path: str) -> Iterator[str]:
    content = block.content
    if isinstance(content, list) and block.type == SERVER_RESULTS[0]:
        yield from _found(content, path)
    elif isinstance(content, InputBlock) and content.type == f"{block.type}_error":
        yield f"Error: {content.error_code or 'unavailable'}"
    elif isinstance(content, InputBlock) and content.type == "web_fetch_result":
        yield _document(content.content, f"{path}.content")
    elif isinstance(content, InputBlock) and content.type == "code_execution_result":
        yield (content.stdout or "") + (content.stderr or "")
    else:
        raise refused(path, f"no content that a {block.type} has here.", code="unsupported_content")


def _found(pages: Sequence[InputBlock], path: str) -> Iterator[str]:
    """The pages of a search elsewhere, whose texts nobody here can read."""
    for i, page in enumerate(pages):
        if page.type != "web_search_result":
            raise refused(f"{path}[{i}].type", "must be a web_search_result.")
        yield f"{page.title or ''}\n{page.url or ''}\n"
    if not pages:
        yield NOTHING_FOUND


def _document(document: object, path: str) -> str:
    source = document.source if isinstance(document, InputBlock) else None
    data = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    if not isinstance(data, str):
        raise refused(path, "only documents of text can be read.", code="unsupported_content")
    return data
