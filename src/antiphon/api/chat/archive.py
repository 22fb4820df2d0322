"""Chat completions as they are stored, each for its owner alone."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Literal

import msgspec

from antiphon.errors import NotFoundError, Position
from antiphon.store import Key, Record
from antiphon.store.archive import Archive, even_damaged, from_json, off_loop
from antiphon.store.store import unless_changed, until_written
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from .messages import arguments_text
from .schema import AnswerToolCall, CalledFunction, ChatCompletion, ChatMessage, ChatRequest, ContentPart, FunctionCall

# Chat completions that are stored: as they are read again, and with the messages that they answered.

# Which stored completions a list has, and where a page of it begins.

_ID = re.compile("chatcmpl-[0-9a-f]{30}")
_PAIR = re.compile(r"metadata\[(.*)\]", re.DOTALL)


class Filter(msgspec.Struct, frozen=True):
    """Which completions a list has: all pairs of ``metadata`` are among theirs. None, and no pairs: all of them."""

    model: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    def takes(self, models: Collection[str], metadata: Mapping[str, str]) -> bool:
        """Whether the list has a completion with these names of its model and these pairs."""
        fits = self.model is None or self.model in models
        return fits and all(metadata.get(key) == value for key, value in self.metadata)


class Cursor(msgspec.Struct, frozen=True):
    """The beginning of a page of a list: behind the id ``after``, which may be deleted meanwhile; "": the first page.

    Raises `RequestError` for what cannot have been an id.
    """

    after: str = ""
    newest_first: bool = False

    def __post_init__(self) -> None:
        if self.after and not _ID.fullmatch(self.after):
            raise refused("after", f"there is no completion {self.after[:80]!r}.")

    def rest(self, ids: Iterable[str]) -> Iterable[str]:
        """Returns the ``ids`` that the page may have, in its order."""
        ordered = sorted(ids, reverse=self.newest_first)
        if not self.after:
            return ordered
        return dropwhile(lambda id: id >= self.after if self.newest_first else id <= self.after, ordered)


def completion_id(now: float) -> str:
    """A new id; ids sort by the time ``now`` (Unix, in seconds) at which they were made."""
    return f"chatcmpl-{int(now * 1e6):014x}{secrets.token_hex(8)}"


def filter_of(query: Iterable[tuple[str, str]]) -> tuple[Filter, set[str]]:
    """Reads ``model`` and ``metadata[KEY]``; returns the filter and the names of the query that are neither."""
    model: str | None = None
    pairs: list[tuple[str, str]] = []
    others: set[str] = set()
    for name, value in query:
        if pair := _PAIR.fullmatch(name):
            pairs.append((pair[1], value))
        elif name.startswith("metadata"):
            raise refused("metadata", "the filter has the form metadata[KEY]=VALUE.")
        elif name == "model":
            model = value
        else:
            others.add(name)
    return Filter(model, tuple(pairs)), others


class StoredChatCompletion(ChatCompletion, frozen=True, kw_only=True):
    """A completion as it was answered, with the caller's pairs."""

    metadata: dict[str, str]


class ChatCompletionUpdate(msgspec.Struct, kw_only=True):
    """All that can be changed. Null: no pairs."""

    metadata: dict[str, str] | None


class ChatCompletionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page; the ids are empty where it is."""

    object: Literal["list"] = "list"
    data: list[StoredChatCompletion]
    first_id: str
    last_id: str
    has_more: bool


class DeletedChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["chat.completion.deleted"] = "chat.completion.deleted"
    deleted: bool = True


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the request. ``content`` is its text; ``content_parts`` the parts, where it came in parts."""

    id: str
    role: str
    content: str | None
    name: str | None = None
    content_parts: list[dict[str, str]] | None = None
    tool_calls: list[AnswerToolCall] | msgspec.UnsetType = msgspec.UNSET
    function_call: CalledFunction | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | msgspec.UnsetType = msgspec.UNSET
    refusal: str | msgspec.UnsetType = msgspec.UNSET
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET


def stored_messages(id: str, messages: Sequence[ChatMessage]) -> list[StoredMessage]:
    """The messages that the completion ``id`` answered; each has its number in its id."""
    return [_stored(f"{id}-{i}", message) for i, message in enumerate(messages)]


def _stored(id: str, message: ChatMessage) -> StoredMessage:
    content = message.content
    calls = [
        AnswerToolCall(
            id=call.id,
            type=call.type,
            function=_function(call.function) if call.function else msgspec.UNSET,
            custom=call.custom or msgspec.UNSET,
        )
        for call in message.tool_calls or ()
    ]
    return StoredMessage(
        id=id,
        role=message.role,
        content=content if isinstance(content, str | None) else "".join(map(_text, content)),
        name=message.name,
        content_parts=[_part(part) for part in content] if isinstance(content, list) else None,
        tool_calls=calls or msgspec.UNSET,
        function_call=_function(message.function_call) if message.function_call else msgspec.UNSET,
        tool_call_id=message.tool_call_id or msgspec.UNSET,
        refusal=message.refusal or msgspec.UNSET,
        reasoning=message.reasoning or msgspec.UNSET,
        reasoning_content=message.reasoning_content or msgspec.UNSET,
    )


def _function(function: FunctionCall) -> CalledFunction:
    return CalledFunction(function.name, arguments_text(function.arguments, "arguments"))


def _text(part: ContentPart) -> str:
    return (part.refusal if part.type == "refusal" else part.text) or ""


def _part(part: ContentPart) -> dict[str, str]:
    return {"type": part.type, "refusal" if part.type == "refusal" else "text": _text(part)}


def metadata_of(wire: ChatRequest) -> dict[str, str]:
    """The pairs that are stored with a completion. Raises `RequestError` for a value that is no text."""
    pairs: dict[str, str] = {}
    for key, value in (wire.metadata or {}).items():
        if not isinstance(value, str):
            raise refused("metadata", f"the value of {key[:64]!r} must be a text.", code="invalid_type")
        pairs[key] = value
    return pairs


KIND = "chat_completion"
JsonObject = dict[str, Any]


class StoredHead(msgspec.Struct, frozen=True):
    """Keys that completions are listed by: ``models`` are names of their model, ``metadata`` the caller's pairs."""

    models: tuple[str, ...]
    metadata: dict[str, str]


class CompletionArchive(msgspec.Struct, frozen=True):
    """Completions in the store of responses, which expire as long after they were made as responses do.

    A completion's record is its `StoredHead`; the answer and the messages that it answers are appended to it.
    Another owner's completions are not there: every read raises `NotFoundError` for them, as for what never was.
    """

    archive: Archive

    async def put(self, owner: str, id: str, head: StoredHead, answer: bytes, messages: bytes) -> None:
        """Stores a new completion: ``answer`` and ``messages`` are JSON. A crash after it does not lose them.

        One that is stored already stays as it is: a stream that was taken over comes to its end twice.
        """
        await self.archive.sweep()
        now = self.archive.clock()
        record = Record(encode(head), now, now + self.archive.lifetime)
        await unless_changed(self.archive.store.put(_key(owner, id), record, answer, messages, expected=0))

    async def completion(self, owner: str, id: str) -> bytes:
        """JSON of the answer with its pairs."""
        head, answer, _ = await self._whole(owner, id)
        return _with_pairs(head, answer)

    async def messages(self, owner: str, id: str) -> list[JsonObject]:
        """The messages that it answers, oldest first."""
        _, _, messages = await self._whole(owner, id)
        return await off_loop(lambda: from_json(messages, list[JsonObject]), len(messages))

    async def page(self, owner: str, filter: Filter, cursor: Cursor, limit: int) -> tuple[dict[str, bytes], bool]:
        """JSON of at most ``limit`` completions that the filter takes, by their ids, and whether there are more."""
        found: dict[str, bytes] = {}
        for id in cursor.rest(await self.archive.store.names(KIND, owner)):
            stored = await self._found(owner, id, filter)
            if stored is None:
                continue
            if len(found) == limit:
                return found, True
            found[id] = _with_pairs(*stored[:2])
        return found, False

    async def update(self, owner: str, id: str, metadata: dict[str, str]) -> None:
        """Replaces its pairs. It expires when it would have."""

        async def write() -> None:
            head, _, _ = await self._whole(owner, id)
            record = await self.archive.record(_key(owner, id))
            if record is not None:
                changed = Record(encode(StoredHead(head.models, metadata)), record.created, record.expires)
                await self.archive.store.put(_key(owner, id), changed, expected=record.version)

        await until_written(write)

    async def delete(self, owner: str, id: str) -> None:
        """Deletes a damaged one too."""
        with even_damaged():
            await self._whole(owner, id)
        await self.archive.store.delete(_key(owner, id))

    async def _whole(self, owner: str, id: str) -> tuple[StoredHead, bytes, bytes]:
        found = await self._found(owner, id, Filter())
        if found is None:
            message = f"There is no stored chat completion {id[:80]!r}."
            raise NotFoundError(message, position=Position(path="completion_id"))
        return found

    async def _found(self, owner: str, id: str, filter: Filter) -> tuple[StoredHead, bytes, bytes] | None:
        """The head, the answer and the messages. One that was deleted while its pairs were changed has a head alone."""
        record = await self.archive.record(_key(owner, id))
        head = None if record is None else from_json(record.value, StoredHead)
        if head is None or not filter.takes(head.models, head.metadata):
            return None
        match await self.archive.store.entries(_key(owner, id)):
            case [answer, messages]:
                return head, answer, messages
        return None


def _key(owner: str, id: str) -> Key:
    return Key(KIND, owner, id)


def _with_pairs(head: StoredHead, answer: bytes) -> bytes:
    return encode({**from_json(answer, dict[str, msgspec.Raw]), "metadata": head.metadata})
