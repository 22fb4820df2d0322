"""Two processes that share things: each may enter contexts that the other offers, over one Unix socket.

A frame is its length in four bytes and a message in MessagePack. Whoever enters gets a value when it is its turn, may
send notes, and leaves; when the other end is gone, it has left everything.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from antiphon.errors import AntiphonError, EngineError, EngineLostError
from antiphon.errors.fault import Fault
from antiphon.structs import ready

LOG = logging.getLogger("antiphon.workers")
_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Grant:
    """A context's gift to its guest: a value, in types that MessagePack has; ``note`` takes the guest's notes."""

    value: Any = None
    note: Callable[[Any], None] = lambda note: None


Service = Callable[..., AbstractAsyncContextManager[Grant]]
"""A context that the other side may enter, with arguments that MessagePack has."""
Handler = Callable[..., None]
"""Takes what the other side tells, which waits for no answer."""


class Enter(msgspec.Struct, tag="enter", array_like=True):
    id: int
    what: str
    arguments: list[Any]


class Tell(msgspec.Struct, tag="tell", array_like=True):
    what: str
    arguments: list[Any]


class Note(msgspec.Struct, tag="note", array_like=True):
    id: int
    note: Any


class Leave(msgspec.Struct, tag="leave", array_like=True):
    id: int


class Entered(msgspec.Struct, tag="entered", array_like=True):
    id: int
    value: Any


class Exited(msgspec.Struct, tag="left", array_like=True):
    """It is over: left, or refused with ``fault``."""

    id: int
    fault: Fault | None = None


Message = Enter | Tell | Note | Leave | Entered | Exited


@dataclass(frozen=True, slots=True)
class Visit:
    """One context of the other side's, entered. ``value`` is what it gave."""

    value: Any
    note: Callable[[Any], None]


@dataclass(slots=True, eq=False)
class _Guest:
    """A context of ours that the other side entered, or waits for."""

    task: asyncio.Task[None]
    over: asyncio.Event
    note: Callable[[Any], None] | None = None


@dataclass(slots=True, eq=False)
class _Waiting:
    entered: asyncio.Future[Any]
    left: asyncio.Future[None]


class Peer(asyncio.Protocol):
    """One end. ``lost`` is done when the other one is gone: then whatever waits for it raises `EngineError`."""

    def __init__(self, services: Mapping[str, Service], handlers: Mapping[str, Handler]) -> None:
        self._services, self._handlers = services, handlers
        self._buffer = bytearray()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(ready(Message)).decode
        self._transport: asyncio.WriteTransport | None = None
        self._guests: dict[int, _Guest] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._last = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def over(cls, end: socket.socket, services: Mapping[str, Service], handlers: Mapping[str, Handler]) -> Peer:
        """This side's end of a pair of sockets."""
        end.setblocking(False)
        _, peer = await asyncio.get_running_loop().create_unix_connection(partial(cls, services, handlers), sock=end)
        return peer

    @asynccontextmanager
    async def enter(self, what: str, *arguments: Any) -> AsyncGenerator[Visit, None]:
        """Runs the body in a context of the other side's. Raises what that raises; `EngineError` where it is gone."""
        self._last += 1
        id, loop = self._last, asyncio.get_running_loop()
        waiting = self._waiting[id] = _Waiting(loop.create_future(), loop.create_future())
        try:
            self._send(Enter(id, what, list(arguments)))
            yield Visit(await waiting.entered, lambda note: self._send(Note(id, note)))
            self._send(Leave(id))
            await waiting.left  # Else who asks one after the other would come before its own place is free.
        finally:
            del self._waiting[id]
            if not waiting.left.done():
                self._send(Leave(id))

    async def call(self, what: str, *arguments: Any) -> Any:
        """Enters a context of the other side's and leaves it; returns its value."""
        async with self.enter(what, *arguments) as visit:
            return visit.value

    def tell(self, what: str, *arguments: Any) -> None:
        """Says something to the other side, if it is there."""
        self._send(Tell(what, list(arguments)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is one, but by name.

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "big")
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[_LENGTH:end])
            del self._buffer[:end]
            self._receive(self._decode(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for guest in self._guests.values():
            guest.over.set()
            if guest.note is None:
                guest.task.cancel()
        for waiting in self._waiting.values():
            for future in (waiting.entered, waiting.left):
                if not future.done():
                    future.set_exception(gone())
                    future.exception()  # whoever waits for it gets it
        if not self.lost.done():
            self.lost.set_result(None)

    def _send(self, message: Message) -> None:
        if self._transport is None:
            if isinstance(message, Enter):
                raise gone()
            return
        frame = self._encode(message)
        self._transport.write(len(frame).to_bytes(_LENGTH, "big") + frame)

    def _receive(self, message: Message) -> None:
        match message:
            case Enter(id, what, arguments):
                over = asyncio.Event()
                task = asyncio.ensure_future(self._host(id, self._services[what], arguments, over))
                self._guests[id] = _Guest(task, over)
            case Tell(what, arguments):
                self._handlers[what](*arguments)
            case Leave(id):
                if (guest := self._guests.get(id)) is not None:
                    guest.over.set()
                    if guest.note is None:  # It waits still.
                        guest.task.cancel()
            case Note(id, note):
                if (guest := self._guests.get(id)) is not None and guest.note is not None:
                    guest.note(note)
            case Entered() | Exited():
                if (waiting := self._waiting.get(message.id)) is not None:
                    _answer(waiting, message)

    async def _host(self, id: int, service: Service, arguments: list[Any], over: asyncio.Event) -> None:
        """Runs a context of ours for the other side, until that leaves it."""
        fault = None
        try:
            async with service(*arguments) as grant:
                self._guests[id].note = grant.note
                self._send(Entered(id, grant.value))
                await over.wait()
        except (AntiphonError, TimeoutError) as error:
            fault = Fault.of(error)
        except Exception as error:
            LOG.exception("a worker's request failed here")
            fault = Fault.of(EngineError(f"the supervisor failed: {type(error).__name__}"))
        finally:
            del self._guests[id]
            self._send(Exited(id, fault))


def _answer(waiting: _Waiting, message: Entered | Exited) -> None:
    if isinstance(message, Entered):
        if not waiting.entered.done():
            waiting.entered.set_result(message.value)
        return
    if message.fault is not None and not waiting.entered.done():
        waiting.entered.set_exception(message.fault.error())
    if not waiting.left.done():
        waiting.left.set_result(None)


def gone() -> EngineLostError:
    return EngineLostError("the other process of this server is gone")
