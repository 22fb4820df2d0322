"""Responses and conversations as they are stored, each for its owner alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import Message, OpaquePart, Part, image_url
from antiphon.errors import NotFoundError, Position, RequestError, StoreError
from antiphon.generation.images import PARTS, parts_of
from antiphon.store import Key, Lease, Record, Write, pack, unpack
from antiphon.store.archive import Archive, even_damaged, from_json, off_loop
from antiphon.store.store import unless_changed, until_written
from antiphon.structs import ready
from antiphon.wire.json import encode

from .compaction import standing
from .item_schema import InputItem
from .items import Entry, by_id
from .known import looked_for, response_of, with_results
from .schema import Response, ResponseError


class StoredEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item and its messages, whose images are the item's.

    ``output``: the model wrote it. ``gone``: the id of an item that was deleted.
    """

    item: dict[str, Any] | None = None
    messages: list[bytes] = []
    output: bool = False
    gone: str = ""


class StoredResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """``thread`` is the id of the first response of the chain; it names the engine's cache and the tools' state."""

    response: Response
    thread: str
    conversation: str = ""


class StoredConversation(msgspec.Struct, frozen=True):
    metadata: dict[str, str]


class History(msgspec.Struct, frozen=True):
    """The items before a request, oldest first; ``thread`` is `StoredResponse`'s, None where there is none yet."""

    entries: tuple[Entry, ...] = ()
    thread: str | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Returns the messages for the model: a compaction is in place of what it replaced."""
        return with_results(message for entry in standing(self.entries) for message in entry.messages)


@dataclass(frozen=True, slots=True)
class ResponseArchive:
    """A response expires as long as the archive's ``lifetime`` after a request last continued it."""

    archive: Archive

    async def store_response(
        self,
        owner: str,
        stored: StoredResponse | None,
        *,
        inputs: Sequence[Entry] = (),
        outputs: Sequence[Entry] = (),
        conversation: str = "",
        added: Sequence[Entry] = (),
        lease: Lease | None = None,
        conversation_lease: Lease | None = None,
        also: Sequence[Write] = (),
    ) -> None:
        """Writes a response, appends its items, and adds items to a conversation: all of it, or nothing.

        When this returned, a crash does not lose them. ``stored`` None: the response itself is not stored. ``lease``
        lets it be stored, ``conversation_lease`` added: raises `ConflictError` (``lease_lost``) where one is another's.
        ``also`` are other writes of the same transaction.
        """
        await self.archive.sweep()
        response = [] if stored is None else [await self._response(owner, stored, inputs, outputs, lease)]
        packed = await _all_packed(added, output=False)

        async def write() -> None:
            more = [await self._added(owner, conversation, packed, conversation_lease)] if conversation else []
            await self.archive.store.put_all(*response, *more, *also)

        if response or conversation or also:
            await until_written(write)

    async def _response(
        self,
        owner: str,
        stored: StoredResponse,
        inputs: Sequence[Entry],
        outputs: Sequence[Entry],
        lease: Lease | None,
    ) -> Write:
        now = self.archive.clock()
        entries = [*await _all_packed(inputs, output=False), *await _all_packed(outputs, output=True)]
        record = Record(encode(stored), now, now + self.archive.lifetime)
        return Write(Key("response", owner, stored.response.id), record, entries, lease=lease)

    async def response(self, owner: str, id: str) -> StoredResponse:
        record = await self.archive.record(Key("response", owner, id))
        if record is None:
            raise NotFoundError(f"There is no response {id[:80]!r}.", position=Position(path="response_id"))
        return from_json(record.value, StoredResponse)

    async def has(self, owner: str, id: str) -> bool:
        return await self.archive.record(Key("response", owner, id)) is not None

    async def finished(self, owner: str, id: str) -> Response:
        """A stored response that nobody makes any more; failed where the server stopped, or died, while it did."""
        response = (await self.response(owner, id)).response
        if response.status not in ("queued", "in_progress"):
            return response
        error = ResponseError("server_error", "The server stopped before the response was whole.")
        return replace(response, status="failed", error=error)

    async def delete_response(self, owner: str, id: str) -> None:
        """Deletes a damaged one too."""
        with even_damaged():
            await self.response(owner, id)
        await self.archive.store.delete(Key("response", owner, id))

    async def items(self, owner: str, id: str, *, output: bool | None = None) -> list[Entry]:
        """A response's own items: its input (``output`` false), its output (true), or both."""
        stored = await self._entries(Key("response", owner, id))
        return [_unpacked(entry) for entry in stored if output is None or entry.output is output]

    async def known(self, owner: str, items: Sequence[InputItem], before: Sequence[Entry] = ()) -> dict[str, Entry]:
        """Stored items that a request means by their ids: of those ``before`` it, or of a response."""
        ids = looked_for(items)
        found = by_id(before, ids)
        for response in sorted(set(map(response_of, ids - found.keys()))):
            found |= by_id(await self.items(owner, response), ids)
        return found

    async def history(self, owner: str, id: str) -> History:
        """Everything up to the end of response ``id``, through all that it went on from."""
        chain: list[list[Entry]] = []
        thread, next = None, id
        while next:
            stored = await self._earlier(owner, next)
            thread = stored.thread
            chain.append(await self.items(owner, next))
            next = stored.response.previous_response_id or ""
        return History(tuple(entry for entries in reversed(chain) for entry in entries), thread)

    async def _earlier(self, owner: str, id: str) -> StoredResponse:
        key = Key("response", owner, id)
        record = await self.archive.record(key)
        if record is None:
            raise _unusable(id, "is not stored here", code="previous_response_not_found")
        stored = from_json(record.value, StoredResponse)
        if stored.response.status in ("queued", "in_progress"):
            raise _unusable(id, "is not finished yet", code="previous_response_not_finished")
        if stored.conversation:
            raise _unusable(id, f"belongs to the conversation {stored.conversation!r}", hint="Name the conversation.")
        if record.expires is not None and record.expires - self.archive.clock() < self.archive.lifetime / 2:
            longer = Record(record.value, record.created, self.archive.clock() + self.archive.lifetime)
            await unless_changed(self.archive.store.put(key, longer, expected=record.version))
        return stored

    async def create_conversation(self, owner: str, id: str, metadata: dict[str, str], entries: Sequence[Entry]) -> int:
        """Writes a new conversation; the time of its making."""
        now = self.archive.clock()
        packed = await _all_packed(entries, output=False)
        await self.archive.store.put(Key("conversation", owner, id), Record(_metadata(metadata), now), *packed)
        return int(now)

    async def conversation(self, owner: str, id: str) -> tuple[dict[str, str], int]:
        """Its metadata, and when it was made."""
        record = await self._conversation(owner, id)
        return from_json(record.value, StoredConversation).metadata, int(record.created)

    async def _conversation(self, owner: str, id: str) -> Record:
        record = await self.archive.record(Key("conversation", owner, id))
        if record is None:
            raise NotFoundError(f"There is no conversation {id[:80]!r}.", position=Position(path="conversation"))
        return record

    async def update_conversation(self, owner: str, id: str, metadata: dict[str, str]) -> None:
        """Replaces its metadata; what is added to it meanwhile stays."""

        async def write() -> None:
            known = await self._conversation(owner, id)
            record = Record(_metadata(metadata), known.created)
            await self.archive.store.put(Key("conversation", owner, id), record, expected=known.version)

        await until_written(write)

    async def delete_conversation(self, owner: str, id: str, *, lease: Lease | None = None) -> None:
        """Deletes a damaged one too."""
        with even_damaged():
            await self.conversation(owner, id)
        await self.archive.store.delete(Key("conversation", owner, id), lease=lease)

    async def conversation_items(self, owner: str, id: str) -> list[Entry]:
        """Its items, oldest first."""
        await self.conversation(owner, id)
        stored = await self._entries(Key("conversation", owner, id))
        gone = {entry.gone for entry in stored if entry.gone}
        size = sum(len(message) for entry in stored for message in entry.messages)
        entries = await off_loop(lambda: [_unpacked(entry) for entry in stored if not entry.gone], size)
        return [entry for entry in entries if not entry.id or entry.id not in gone]

    async def add_items(self, owner: str, id: str, entries: Sequence[Entry], *, lease: Lease | None = None) -> None:
        await self._add(owner, id, await _all_packed(entries, output=False), lease)

    async def _add(self, owner: str, id: str, packed: Sequence[bytes], lease: Lease | None) -> None:
        async def write() -> None:
            await self.archive.store.put_all(await self._added(owner, id, packed, lease))

        await until_written(write)

    async def _added(self, owner: str, id: str, packed: Sequence[bytes], lease: Lease | None) -> Write:
        """Adds to the conversation as it is now."""
        known = await self._conversation(owner, id)
        record = Record(known.value, known.created)
        return Write(Key("conversation", owner, id), record, packed, known.version, lease)

    async def delete_item(self, owner: str, id: str, item: str, *, lease: Lease | None = None) -> None:
        """Deletes one item. Entries are only ever appended, so the deletion is appended too."""
        await self._add(owner, id, [msgspec.msgpack.encode(StoredEntry(gone=item))], lease)

    async def _entries(self, key: Key) -> list[StoredEntry]:
        stored = await self.archive.store.entries(key)
        return await off_loop(lambda: [_entry(one) for one in stored], sum(map(len, stored)))


def _entry(stored: bytes) -> StoredEntry:
    try:
        return msgspec.msgpack.decode(stored, type=ready(StoredEntry))
    except msgspec.DecodeError as error:
        raise StoreError("A stored item cannot be read.", code="store_corrupt") from error


def _packed(entry: Entry, *, output: bool) -> bytes:
    item, messages = None if entry.item is None else dict(entry.item), entry.messages
    if any(map(PARTS, messages)):
        messages = _placed(item, messages)
    return msgspec.msgpack.encode(StoredEntry(item, [pack(message) for message in messages], output))


def _placed(item: Mapping[str, Any] | None, messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with the places of images that the item has, in place of these."""
    places = {url: place for place, url in reversed([*enumerate(_images(item))])}

    def stored(part: Part) -> Part:
        if places and isinstance(part, OpaquePart) and (place := places.get(image_url(part) or "")) is not None:
            return OpaquePart(part.kind, {"of_item": place})
        return part

    return tuple(dataclasses.replace(one, parts=tuple(map(stored, one.parts))) for one in messages)


async def _all_packed(entries: Sequence[Entry], *, output: bool) -> list[bytes]:
    return await off_loop(lambda: [_packed(entry, output=output) for entry in entries], _size(entries))


def _size(entries: Sequence[Entry]) -> int:
    """The characters of their texts and images."""
    size = 0
    for entry in entries:
        for message in entry.messages:
            size += len(message.text)
            if message.parts:
                size += sum(len(image_url(part) or "") for _, part in parts_of([message]))
    return size


def _unpacked(stored: StoredEntry) -> Entry:
    messages = [*map(unpack, stored.messages)]
    if any(map(PARTS, messages)):
        messages = [dataclasses.replace(one, parts=_whole(stored.item, one.parts)) for one in messages]
    return Entry(stored.item, tuple(messages))


def _whole(item: Mapping[str, Any] | None, parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts with the item's images in their places."""
    urls, whole = _images(item), list[Part]()
    for part in parts:
        match part:
            case OpaquePart(kind, {"of_item": int(place)}) if place < len(urls):
                part = OpaquePart(kind, {"type": kind, "image_url": urls[place]})
        whole.append(part)
    return tuple(whole)


def _images(item: Mapping[str, Any] | None) -> list[str]:
    """The images of an item, or of a result that is one."""
    parts = (item or {}).get("content") or (item or {}).get("output")
    return [part["image_url"] for part in parts if part.get("image_url")] if isinstance(parts, list) else []


def _metadata(metadata: dict[str, str]) -> bytes:
    return msgspec.json.encode(StoredConversation(metadata))


def _unusable(id: str, why: str, *, code: str = "invalid_value", hint: str | None = None) -> RequestError:
    return RequestError(
        f"The response {id[:80]!r} {why}.", code=code, position=Position(path="previous_response_id"), hint=hint
    )


# What a WebSocket connection remembers: its latest response that is stored nowhere.

SOCKET = "antiphon.responses.socket"
"""The key of a `SocketTurn` in the scope of a request that came over a WebSocket."""


@dataclass(slots=True)
class Memory:
    """The latest response of ``store: false``, with all that it went on from; of ``most`` characters at most."""

    most: int
    _id: str = ""
    _history: History = field(default_factory=History)

    def history(self, id: str) -> History | None:
        """Everything up to the end of response ``id``; None where it is not the latest."""
        return self._history if self.has(id) else None

    def has(self, id: str | None) -> bool:
        return bool(id) and id == self._id

    def remember(self, id: str, entries: Sequence[Entry], thread: str) -> None:
        if _size(entries) > self.most:
            self.forget()
        else:
            self._id, self._history = id, History(tuple(entries), thread)

    def forget(self) -> None:
        self._id, self._history = "", History()


class SocketTurn(msgspec.Struct, frozen=True):
    """How one request of a connection is answered. ``generate`` false: the prompt is read, and nothing is answered."""

    memory: Memory
    generate: bool = True


@contextmanager
def forgetting_failed(turn: SocketTurn | None, previous: str | None) -> Iterator[None]:
    """A request that cannot go on from the response that its connection remembers costs that response."""
    try:
        yield
    except RequestError:
        if turn is not None and turn.memory.has(previous):
            turn.memory.forget()
        raise
