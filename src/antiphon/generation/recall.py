"""Remembered turns in a store, where they are found after a restart, and by other servers of the same store."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.conversation import End, Message
from antiphon.errors import StoreError
from antiphon.store import UnfinishedTurns, pack, unpack
from antiphon.store.archive import off_loop
from antiphon.store.store import total
from antiphon.structs import ready
from antiphon.tenancy import Tenant
from antiphon.tokens import SampledText, encode_pieces

from .bridge import is_kept
from .model import Model
from .plan import Draft, plan_turn
from .reader import ChoiceReader
from .request import Overflow, TurnRequest
from .sequences import Remembered
from .unfinished import TurnMemory

PATIENCE = 2.0
"""Seconds that a request waits for the store."""
CUT = 64
"""Ids of a text that its limit cut, above which they are remembered unseen."""
SHORT = 1024
"""Ids of a turn that are not compressed: that would take longer than all else that is stored of it."""
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does work on the whole request, beside the event loop where it is long."""
Writing = asyncio.Task[None]
"""A task that ends when something is stored, or cannot be."""
log = logging.getLogger("antiphon.generation")


async def draft_turn(
    model: Model,
    request: Callable[[], TurnRequest],
    run: Run,
    *,
    memory: TurnMemory | None = None,
    most: int | None = None,
) -> Draft:
    """The draft of what ``request`` makes, as `plan_turn` has it; it goes on with turns that are found in the store.

    ``memory`` has what the model wrote in place of what its client sends back of it.
    """
    stored = model.sequences.stored

    def begin(turn: TurnRequest) -> Draft | tuple[TurnRequest, Sequence[bytes]]:
        missing = model.sequences.missing(turn) if stored and is_kept(model, turn) else ()
        return (turn, missing) if missing else plan_turn(model, turn, most=most)

    def read() -> TurnRequest | Draft | tuple[TurnRequest, Sequence[bytes]]:
        turn = request()
        return turn if memory is not None and memory.read(turn) else begin(turn)

    begun = await run(read)
    if memory is not None and isinstance(begun, TurnRequest):
        whole = await memory.recall(begun)
        begun = await run(lambda: begin(whole))
    if not isinstance(begun, Draft):
        turn, missing = begun
        await _recall(model, turn.tenant, missing)
        begun = await run(lambda: plan_turn(model, turn, most=most))
    draft: Draft = begun
    return draft


def remember(draft: Draft, reader: ChoiceReader) -> Iterator[Writing]:
    """Remembers a choice that is over; once the tasks have ended, all servers that share the store find it.

    A text that was sampled as it is encoded has the same ids in the next prompt, and is not.
    """
    model, request = draft.model, draft.request
    kept = request.return_token_ids or request.explain_prefix or is_kept(model, request)
    # Else it may be larger than any prompt, of whose ids so many are remembered.
    whole = request.overflow is Overflow.REFUSE and not draft.images
    stored = model.sequences.stored if request.storable and kept else None
    for reply, sampled, exact in reader.replies() if kept or _is_encoded_otherwise(draft, reader.messages) else ():
        made = model.sequences.add(
            request, draft.prompt, draft.prompt_ids, reply, sampled,
            exact=exact, own_ids=reader.own_ids, explained=kept and whole,
        )  # fmt: skip
        if stored is not None and made.key:
            writing = asyncio.create_task(_store(model, stored, made))
            model.sequences.writing.add(writing)
            writing.add_done_callback(model.sequences.writing.discard)
            yield writing


def _is_encoded_otherwise(draft: Draft, reply: Sequence[Message]) -> bool:
    """Whether the reply is one text that a prompt would have in other ids than were sampled.

    A long one that its limit cut may be: it is dear to find out, and likely to be gone on with.
    """
    if len(reply) != 1 or reply[0].is_call:
        return False
    text, opening = reply[0].text, draft.prompt[-2:]
    if not isinstance(text, SampledText) or text != text.strip():
        return True
    if reply[0].end is End.NONE and len(text.ids) > CUT:
        return True
    joined = [*opening[:-1], opening[-1] + text] if isinstance(opening[-1], str) else [*opening, str(text)]
    tokenizer = draft.model.tokenizer
    return encode_pieces(joined, tokenizer) != [*encode_pieces(opening, tokenizer), *text.ids]


async def _store(model: Model, stored: UnfinishedTurns, turn: Remembered) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            packed = await off_loop(lambda: _packed(turn), 16 * len(turn.ids))
            if not await stored.put_packed(turn.tenant.owner, [_name(model, turn.key)], packed):
                log.warning("the ids of a turn are not stored: they have more than %s bytes", stored.limits.bytes)
    except (StoreError, TimeoutError) as error:
        log.warning("the ids of a turn are not stored: %s", _why(error))


async def _recall(model: Model, tenant: Tenant, keys: Sequence[bytes]) -> None:
    """Remembers the longest of the turns that the store has: the first, or it is looked for by halves.

    Where a conversation was stored up to a turn, so were its turns before.
    """
    stored = model.sequences.stored
    found: Sequence[bytes] = ()
    first, last, place = 0, len(keys), 0
    assert stored is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while first < last:
                if packed := await stored.find_packed(tenant.owner, [_name(model, keys[place])]):
                    found, last = packed, place
                else:
                    first = place + 1
                place = (first + last) // 2
            if found:
                size = 16 * total(found)
                model.sequences.put(await off_loop(lambda: _unpacked(found, tenant, keys[last]), size))
    except (StoreError, TimeoutError) as error:
        log.warning("the ids of earlier turns are not looked for: %s", _why(error))


def _why(error: StoreError | TimeoutError) -> str:
    return error.code if isinstance(error, StoreError) else f"the store took more than {PATIENCE:g} s"


def _name(model: Model, key: bytes) -> str:
    """The record of a turn; ids mean nothing in another vocabulary."""
    whose = repr((model.name, model.tokenizer.name, model.tokenizer.size)).encode()
    return hashlib.sha256(whose + key).hexdigest()


# The form of a record: its head, and the messages of the reply.


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The number of messages that were answered, the digest of the prompt, the ids of 32 bits each, ``zipped`` or not.

    ``own_ids``: as `Remembered` has them.
    """

    asked: int
    prompt: bytes
    ids: bytes
    own_ids: tuple[tuple[str, str], ...] = ()
    zipped: bool = True


_DECODER = msgspec.msgpack.Decoder(ready(_Head))


def _packed(turn: Remembered) -> list[bytes]:
    ids, zipped = struct.pack(f"<{len(turn.ids)}I", *turn.ids), len(turn.ids) > SHORT
    head = msgspec.msgpack.encode(
        _Head(turn.asked, turn.prompt, zlib.compress(ids, 1) if zipped else ids, turn.own_ids, zipped)
    )
    texts = (replace(one, text=str(one.text), header=tuple(map(str, one.header))) for one in turn.reply)
    return [head, *map(pack, texts)]  # Their ids are among the others.


def _unpacked(packed: Sequence[bytes], tenant: Tenant, key: bytes) -> Remembered:
    """The turn of a record. Raises `StoreError`."""
    try:
        head = _DECODER.decode(packed[0])
        ids = zlib.decompress(head.ids) if head.zipped else head.ids
        numbers = struct.unpack(f"<{len(ids) // 4}I", ids)
    except (msgspec.DecodeError, zlib.error, struct.error) as error:
        raise StoreError("The stored ids of a turn cannot be read.", code="store_corrupt") from error
    return Remembered(tenant, head.asked, head.prompt, tuple(map(unpack, packed[1:])), numbers, key, head.own_ids)
