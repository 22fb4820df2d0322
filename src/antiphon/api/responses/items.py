"""Items of a request → messages of a conversation, and back to the form in which items are listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.api.chat.messages import answered, followed, recipient_of, text_part
from antiphon.api.responses.item_schema import ItemList
from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Intent,
    Message,
    OpaquePart,
    Part,
    Role,
    TextPart,
    ToolsPart,
    text_and_parts,
)
from antiphon.conversation.calls import GivenCalls, OpenCalls, make_answer, make_call
from antiphon.errors import Position, RequestError, UnsupportedError
from antiphon.generation.reply import canonical
from antiphon.tools.mcp import ListedTool
from antiphon.tools.mcp.tool_set import function_name
from antiphon.wire.documents import text_file
from antiphon.wire.encrypted import SEPARATOR, Purpose
from antiphon.wire.errors import refused
from antiphon.wire.json import encode
from antiphon.wire.projection import CUSTOM_INPUT, custom_input

from .item_schema import Content, InputItem, InputPart
from .items_by_type import action_text, converted, found_tools, printed_text
from .known import ACTIONS, CALLS, Approvals, is_as_run, is_as_written, is_preamble, result_only

TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
ANSWERS = (
    "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output",
    "apply_patch_call_output", "tool_search_output",
)  # fmt: skip
UNREAD = ("web_search_call", "mcp_list_tools")
"""Items for the client alone: the model gets nothing of them."""
WITHOUT_STATUS = ("reasoning", "compaction", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response")
PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "tool_search_call": "ts",
    "tool_search_output": "tso",
    "web_search_call": "ws",
    "code_interpreter_call": "ci",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "compaction": "cmp",
}


class Entry(msgspec.Struct, frozen=True):
    """An item as it is listed, None where clients see none, and the messages that it is to the model."""

    item: Mapping[str, Any] | None
    messages: tuple[Message, ...] = ()

    @property
    def id(self) -> str:
        return str(self.item["id"]) if self.item else ""


def by_id(entries: Iterable[Entry], ids: Collection[str]) -> dict[str, Entry]:
    """Finds the ``entries`` with one of the ids, each with the messages before it that are no items of their own."""
    found: dict[str, Entry] = {}
    hidden: tuple[Message, ...] = ()
    for entry in entries:
        messages = (*hidden, *entry.messages)
        hidden = messages if entry.item is None else ()
        if entry.id and entry.id in ids:
            found[entry.id] = Entry(entry.item, messages)
    return found


class ItemReader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads items that follow ``before``. ``token`` makes ids for those that have none, unique with ``first``.

    ``decrypt`` reads ``encrypted_content`` (`RequestError` for what this server did not write). ``known`` are stored
    items, which references name, and which stand in for those that come back as they were written. ``first`` is the
    number that errors give the first item. ``whole``: ``before`` is all that was said, and results are of calls in it
    or behind it. ``strict`` refuses results of no call that waits, and calls under the id of one that does.
    """

    token: str
    decrypt: Callable[[str, str, Purpose], Message]
    before: Sequence[Entry] = ()
    known: Mapping[str, Entry] = msgspec.field(default_factory=dict)
    path: str = "input"
    first: int = 0
    whole: bool = False
    strict: bool = False

    def read(self, items: Sequence[InputItem]) -> list[Entry]:
        """One entry an item. Raises `RequestError` at the item that cannot be read."""
        calls = (OpenCalls if self.strict else GivenCalls)(m for entry in self.before for m in entry.messages)
        approvals = Approvals()
        for entry in self.before:
            approvals.note(entry.item, entry.messages)
        entries: list[Entry] = []
        for i, item in enumerate(items):
            path = f"{self.path}[{self.first + i}]"
            known = self._known(item, path)
            if known is None:
                messages = tuple(self._messages(items, i, path, calls, approvals))
                known = Entry(_listed(item, f"{self.token}i{i:04x}"), messages)
            entry = known
            approvals.note(entry.item, entry.messages)
            for message in entry.messages:
                followed(message, calls, f"{path}.{'id' if item.type == 'item_reference' else 'call_id'}")
            entries.append(entry)
        return entries

    def _known(self, item: InputItem, path: str) -> Entry | None:
        """The item that a reference names, or that the model wrote and the client sends back as it was."""
        entry = self.known.get(item.id or "")
        if item.type == "item_reference":
            if entry is None:
                raise refused(f"{path}.id", f"there is no item {(item.id or '')[:80]!r}.", code="item_not_found")
            return entry
        return entry if entry is not None and entry.item and is_as_written(item, entry.item) else None

    def _messages(
        self, items: Sequence[InputItem], number: int, path: str, calls: OpenCalls, approvals: Approvals
    ) -> Iterator[Message]:
        item = items[number]
        if isinstance(item.arguments, dict) and item.type != "tool_search_call":
            raise refused(f"{path}.arguments", "must be a text.", code="invalid_type")
        match item.type:
            case None | "message":
                yield _message(item, path, preamble=is_preamble(items, number))
            case "reasoning":
                yield from self._reasoning(item, path)
            case kind if kind in CALLS:
                yield self._call(item, path)
            case kind if kind in ANSWERS:
                yield _output(item, path, calls, whole=self.whole)
            case "code_interpreter_call" | "web_search_call":
                yield from self._past_call(item, path)
            case "mcp_call" | "mcp_approval_request" | "mcp_approval_response":
                yield from self._mcp(item, path, approvals)
            case "compaction":
                yield self._summary(item, path)
            case kind if kind in UNREAD:
                converted(item.tools or [], list[ListedTool], f"{path}.tools")
            case kind:
                raise UnsupportedError(
                    f"{path}.type: items of type {kind[:64]!r} cannot be read.",
                    position=Position(path=f"{path}.type"),
                    hint=f"Known: message, {', '.join((*CALLS, *ANSWERS))}, reasoning, compaction, item_reference.",
                )

    def _mcp(self, item: InputItem, path: str, approvals: Approvals) -> Sequence[Message]:
        """A call, or that it is requested or approved; of one that ran when it was approved the result alone."""
        if item.type == "mcp_approval_request":
            return (_requested(item, path),)
        if item.type == "mcp_approval_response":
            return (approvals.answer(item, path),)
        call = approvals.calls.get(item.approval_request_id or "")
        ran = self._past_call(item, path)
        return ran if call is None else result_only(ran, call)

    def _reasoning(self, item: InputItem, path: str) -> Iterator[Message]:
        """``encrypted_content`` where there is some, because it is exact; else the text; else the summary."""
        if item.encrypted_content:
            yield self._decrypted(item.encrypted_content, path)
            return
        parts = _parts(item.content, f"{path}.content") or _parts(item.summary, f"{path}.summary")
        if parts:
            yield Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS, text=text_and_parts(parts)[0])

    def _decrypted(self, content: str, path: str) -> Message:
        """The reasoning. Raises `RequestError` for what was encrypted as something else."""
        path = f"{path}.encrypted_content"
        message = self.decrypt(content, path, "reasoning")
        if message.is_call or message.channel != Channel.ANALYSIS:
            raise refused(path, "this is not the content of reasoning.", code="invalid_encrypted_content")
        return message

    def _summary(self, item: InputItem, path: str) -> Message:
        path = f"{path}.encrypted_content"
        if not item.encrypted_content:
            raise refused(path, "a compaction needs it.", code="missing_required_parameter")
        return self.decrypt(item.encrypted_content, path, "compaction")

    def _call(self, item: InputItem, path: str) -> Message:
        """As the model wrote it, where that came along and is what the item says."""
        call = _call(item, path, strict=self.strict)
        if not item.encrypted_content:
            return call
        written = self.decrypt(item.encrypted_content, f"{path}.encrypted_content", "reasoning")
        same = written.is_call and (written.recipient, written.call_id) == (call.recipient, call.call_id)
        return written if same and _arguments(item, written.text) == _arguments(item, call.text) else call

    def _past_call(self, item: InputItem, path: str) -> Sequence[Message]:
        """A call that ran here, and its answer: as they were, where they came along and are what the item says."""
        given = () if item.type in UNREAD else tuple(_past_call(item, path))
        if not item.encrypted_content:
            return given
        parts = item.encrypted_content.split(SEPARATOR)
        written = [self.decrypt(part, f"{path}.encrypted_content", "reasoning") for part in parts]
        return written if is_as_run(item, written) else given


def _message(item: InputItem, path: str, *, preamble: bool) -> Message:
    if item.role is None:
        raise refused(f"{path}.role", "a message needs it.", code="missing_required_parameter")
    if item.content is None:
        raise refused(f"{path}.content", "a message needs it.", code="missing_required_parameter")
    parts = _parts(item.content, f"{path}.content", images=item.role == "user")
    text, several = text_and_parts(parts)
    if item.role != "assistant":
        return Message(role=Role(item.role), text=text, parts=several)
    if preamble:
        return Message(role=Role.ASSISTANT, channel=Channel.COMMENTARY, intent=Intent.PREAMBLE, text=text)
    return Message(role=Role.ASSISTANT, channel=Channel.FINAL, text=text, parts=several)


def _call(item: InputItem, path: str, *, strict: bool) -> Message:
    kind = item.type or ""
    said = ACTIONS.get(kind, "input" if kind == "custom_tool_call" else "arguments")
    for name in ("call_id", said) if kind in ACTIONS else ("call_id", "name", said):
        given = getattr(item, name)
        if given is None or (not given and (name == "call_id" or (name == "name" and strict))):
            raise refused(f"{path}.{name}", f"a {item.type} needs it.", code="missing_required_parameter")
    if kind in ACTIONS:
        return make_call(recipient_of(kind.removesuffix("_call")), action_text(item, said, path), item.call_id)
    text = str(item.arguments) if kind == "function_call" else json.dumps({CUSTOM_INPUT: item.input})
    name = f"{item.namespace}.{item.name}" if item.namespace else item.name or ""
    return make_call(recipient_of(name), text or "", item.call_id)


def _arguments(item: InputItem, text: str) -> str:
    """Makes the arguments of calls comparable."""
    return custom_input(text) if item.type == "custom_tool_call" else canonical(text)


def _output(item: InputItem, path: str, calls: OpenCalls, *, whole: bool) -> Message:
    # The id of a local shell's output is that of its call.
    call_id = item.call_id or (item.id if item.type == "local_shell_call_output" else None)
    if not call_id:
        raise refused(f"{path}.call_id", f"a {item.type} needs it.", code="missing_required_parameter")
    if item.output is None and item.type not in ("apply_patch_call_output", "tool_search_output"):
        raise refused(f"{path}.output", f"a {item.type} needs it.", code="missing_required_parameter")
    if whole and not calls.used(call_id):
        raise refused(f"{path}.call_id", f"there is no call {call_id[:80]!r} before it.", code="item_not_found")
    recipient = answered(call_id, calls, f"{path}.call_id")
    if item.type == "tool_search_output":
        return make_answer(recipient, call_id, (ToolsPart.of(found_tools(item, path)),))
    if item.type == "shell_call_output" and isinstance(item.output, list):
        printed = [printed_text(part, f"{path}.output[{i}]") for i, part in enumerate(item.output)]
        return make_answer(recipient, call_id, (TextPart("\n".join(printed)),))
    if item.type == "apply_patch_call_output":
        said = text_and_parts(_parts(item.output, f"{path}.output"))[0]
        return make_answer(recipient, call_id, (TextPart(": ".join(filter(None, (item.status, said)))),))
    return make_answer(recipient, call_id, _parts(item.output, f"{path}.output", images=True))


def _mcp_recipient(item: InputItem) -> str:
    if not item.server_label or item.server_label == FUNCTIONS:
        return recipient_of(item.name or "")
    return recipient_of(function_name(item.server_label, item.name or ""))


def _requested(item: InputItem, path: str) -> Message:
    """A call that waits for its approval; its item's id is its own."""
    for name in ("id", "server_label", "name"):
        if not getattr(item, name):
            raise refused(f"{path}.{name}", f"a {item.type} needs it.", code="missing_required_parameter")
    return make_call(_mcp_recipient(item), str(item.arguments or ""), item.id)


def _past_call(item: InputItem, path: str) -> Iterator[Message]:
    """A call that a server ran, with its answer, as far as the item has it."""
    call_id = item.call_id or item.id
    if item.type == "code_interpreter_call":
        recipient, text, kind = "python", item.code or "", None
        answer: Sequence[Part] = [TextPart(part.logs or part.text or "") for part in item.outputs or ()]
    else:
        recipient, text, kind = _mcp_recipient(item), str(item.arguments or ""), "json"
        answer = _parts(item.output if item.output is not None else json.dumps(item.error), f"{path}.output")
    yield make_call(recipient, text, call_id, kind=kind)
    yield make_answer(recipient, call_id, answer)


def _parts(content: Content, path: str, *, images: bool = False) -> tuple[TextPart | OpaquePart, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    return tuple(_part(part, f"{path}[{i}]", images=images) for i, part in enumerate(content))


def _part(part: InputPart, path: str, *, images: bool) -> TextPart | OpaquePart:
    if images and part.type == "input_image":
        return OpaquePart(part.type, {"type": part.type, "image_url": part.image_url}, path)
    if part.type == "input_file":
        return text_file(part.file_data, part.filename, path, part.type)
    return text_part(part, path, TEXTS)


def _listed(item: InputItem, token: str) -> dict[str, Any]:
    """The item as it is listed: with an id, a type, a status, and its content as parts."""
    kind = item.type or "message"
    listed: dict[str, Any] = msgspec.to_builtins(item)
    listed |= {"type": kind, "id": item.id or f"{PREFIXES.get(kind, 'item')}_{token}"}
    if kind == "reasoning":
        listed.setdefault("summary", [])
    if kind not in WITHOUT_STATUS:
        others = ("in_progress", "failed" if kind == "apply_patch_call_output" else "incomplete")
        listed["status"] = item.status if item.status in others else "completed"
    if kind != "message":
        return listed
    part = "output_text" if item.role == "assistant" else "input_text"
    content = [InputPart(text=item.content)] if isinstance(item.content, str) else item.content or []
    listed["content"] = [_listed_part(each, part) for each in content]
    return listed


def _listed_part(part: InputPart, kind: str) -> dict[str, Any]:
    if part.type == "refusal":
        return {"type": "refusal", "refusal": part.refusal}
    if part.type in ("input_image", "input_file"):
        usual = {"detail": "auto"} if part.type == "input_image" else {}
        return {"type": part.type, **usual, **msgspec.to_builtins(part)}
    extra: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, "text": part.text, **extra}


# Pages of items.

MOST = 100
"""Items of one page."""
USUAL = 20


def page_of(entries: Sequence[Entry], query: Mapping[str, str], *, newest_first: bool) -> ItemList:
    """One page: ``limit`` items (1 to 100, by default 20) after the item ``after``, in the ``order`` asc or desc."""
    items = [entry.item for entry in entries if entry.item is not None]
    if newest_is_first(query, usual=newest_first):
        items.reverse()
    after = query.get("after")
    if after:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise _refused("after", f"there is no item {after[:80]!r}.")
        items = items[ids.index(after) + 1 :]
    page = items[: limit_of(query)]
    return ItemList(
        data=[msgspec.Raw(encode(item)) for item in page],
        first_id=page[0]["id"] if page else "",
        last_id=page[-1]["id"] if page else "",
        has_more=len(items) > len(page),
    )


def newest_is_first(query: Mapping[str, str], *, usual: bool) -> bool:
    """Whether ``order`` is desc; ``usual`` where it is not there."""
    order = query.get("order", "desc" if usual else "asc")
    if order not in ("asc", "desc"):
        raise _refused("order", f"{order[:32]!r} is neither asc nor desc.")
    return order == "desc"


def limit_of(query: Mapping[str, str]) -> int:
    """How many are on a page."""
    limit = query.get("limit")
    if limit is None:
        return USUAL
    if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:4]) <= MOST or len(limit) > 3:
        raise _refused("limit", f"must be a number from 1 to {MOST}.")
    return int(limit)


def _refused(name: str, message: str) -> RequestError:
    return RequestError(f"{name}: {message}", code="invalid_value", position=Position(path=name))
