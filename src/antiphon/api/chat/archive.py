"""Chat completions as they are stored, each for its owner alone."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.errors import NotFoundError, Position
from antiphon.store import Key, Record
from antiphon.store.archive import Archive, even_damaged, from_json, off_loop
from antiphon.store.store import unless_changed, until_written
from antiphon.wire.json import encode

from .stored import Cursor, Filter

KIND = "chat_completion"
JsonObject = dict[str, Any]


class StoredHead(msgspec.Struct, frozen=True):
    """What completions are listed by: ``models`` are the names of their model, ``metadata`` the caller's pairs."""

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
