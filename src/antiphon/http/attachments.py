"""Images and texts that a request names, by the id of a file or by an address: from here on they stand in it.

Whoever reads, counts or stores the request has them as if its client had sent them in it, within the same limits.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from antiphon.errors import NotFoundError, Position, RequestError, StoreError, UnsupportedError
from antiphon.store.files import FileLimits, Files
from antiphon.tools import ToolFailure
from antiphon.wire.errors import refused

from .context import Context
from .exchange import Exchange
from .gate.large import BodyRoom

NAMES = re.compile(rb'"(?:file_id|file_url|image_url|url)"')
"""A mark of bodies that may name something; of others nothing more is looked at."""
FIELDS = ("messages", "input", "prompt", "items")
"""The fields of requests that have messages or items, and those of them that have parts."""
CONTENTS = ("content", "output")
DEPTH = 3
"""A message has parts, one of which may be a result with parts, and one of these a document with parts."""
ID = re.compile("file-[0-9a-f]{30}")
MOST_ADDRESSES = 16
"""Addresses of one request that are fetched."""
SECONDS = 30.0
"""For all of them."""
PURPOSES = ("vision", "user_data")
"""Purposes of files that a request may name."""
IMAGES = {b"\x89PNG": "image/png", b"\xff\xd8": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
"""The beginnings of the images that are read, and their types."""
BYTES = ("application/octet-stream", "binary/octet-stream")
"""Types of whatever nobody told the sender the type of."""
IMAGE_KINDS = (*IMAGES.values(), *BYTES)
TEXT = "text/plain"
TEXT_KINDS = ("text/", "application/json", "application/xml", "application/yaml", *BYTES)
INSTEAD = "Send it in base64, or upload it and name its file_id."


class Attachment(msgspec.Struct, frozen=True):
    """A part that names what it has: the file of an id, or an address. ``path`` is the part's."""

    part: Any
    path: str
    name: str
    by_id: bool

    @property
    def is_image(self) -> bool:
        return self.part.type in ("image_url", "input_image", "image")


async def attach(wire: msgspec.Struct, context: Context, exchange: Exchange, room: BodyRoom) -> None:
    """Gives the parts of a body that name something what they name, in place.

    Raises `RequestError` at the first that names what is not there, may not be fetched, is of another kind or makes
    the request larger than it may be; `OverloadedError` where there is no room for it.
    """
    named = [*attachments(wire)]
    if any(one.is_image for one in named) and not await _sees(wire, context):
        named = [one for one in named if not one.is_image]  # Who reads the request refuses them.
    addresses = {one.name: one for one in named if not one.by_id}
    for count, one in enumerate(addresses.values(), 1):
        if context.web is None:
            message = "images and files are not fetched from addresses: server.fetch is off."
            raise UnsupportedError(f"{one.path}: {message}", position=Position(path=one.path), hint=INSTEAD)
        if count > MOST_ADDRESSES:
            raise refused(one.path, f"at most {MOST_ADDRESSES} addresses are fetched for one request.")
    source = _Source(context, exchange.owner, room, asyncio.get_running_loop().time() + SECONDS)
    for one in named:
        put(one.part, *await source.get(one))
    if named:
        exchange.attached, exchange.size = wire, room.size


async def _sees(wire: object, context: Context) -> bool:
    """Whether the model that is requested sees images; what is requested of none is for models that may."""
    if not hasattr(wire, "model"):
        return True
    try:
        return bool((await context.model(wire.model)).image_mark)
    except (NotFoundError, RequestError):  # Its route says so, in its own words.
        return False


def attachments(wire: object) -> Iterator[Attachment]:
    """The parts of a body's messages or items that name something. Raises `RequestError` at one that has it too."""
    for field in FIELDS:
        messages = getattr(wire, field, None)
        for i, message in enumerate(messages if isinstance(messages, list) else ()):
            yield from _within(message, f"{field}[{i}]")


def _within(holder: object, path: str, depth: int = 0) -> Iterator[Attachment]:
    for name in CONTENTS if depth < DEPTH else ():
        parts = getattr(holder, name, None)
        for i, part in enumerate(parts if isinstance(parts, list) else ()):
            at = f"{path}.{name}[{i}]"
            yield from _named_by(part, at)
            yield from _within(part, at, depth + 1)
    match holder:
        case object(source={"type": "content", "content": [*blocks]}):
            for i, block in enumerate(blocks):
                if isinstance(block, dict) and block.get("type") == "image":
                    yield from _named_by(SimpleNamespace(**block), f"{path}.content[{i}]")


def _named_by(part: Any, path: str) -> Iterator[Attachment]:
    given = {name: value for name, value in _sources(part).items() if isinstance(value, str)}
    for name, value in given.items():
        by_id = name.endswith("file_id")
        if by_id or (not name.endswith("data") and value and value[:5].lower() != "data:"):
            if len(given) > 1:
                raise refused(path, f"it has one of {' and '.join(given)}.")
            yield Attachment(part, path, value, by_id)


def _sources(part: Any) -> Mapping[str, object]:
    """The fields of a part that have its file, or say where it is."""
    match part:
        case object(type="image_url", image_url={"url": url}) | object(type="image_url", image_url=url):
            return {"image_url": url}
        case object(type="file", file={**file}):
            return {name: file.get(name) for name in ("file_id", "file_data")}
        case object(type="input_image", image_url=url, file_id=id):
            return {"image_url": url, "file_id": id}
        case object(type="input_file", file_data=data, file_id=id, file_url=url):
            return {"file_data": data, "file_id": id, "file_url": url}
        case object(type="image" | "document", source={"type": "file", "file_id": id}):
            return {"file_id": id}
        case object(type="image" | "document", source={"type": "url", "url": url}):
            return {"url": url}
        case _:
            return {}


def put(part: Any, data: str, kind: str, title: str) -> None:
    """Gives a part its file, in base64, of the type ``kind``; ``title`` is for a text that has none."""
    match part.type:
        case "image_url":
            url = f"data:{kind};base64,{data}"
            part.image_url = {**part.image_url, "url": url} if isinstance(part.image_url, dict) else url
        case "input_image":
            part.image_url, part.file_id = f"data:{kind};base64,{data}", None
        case "file":
            part.file = {"filename": part.file.get("filename") or title, "file_data": data}
        case "input_file":
            part.file_data, part.filename, part.file_id, part.file_url = data, part.filename or title, None, None
        case "image" | "document":
            part.source.clear()
            part.source.update({"type": "base64", "media_type": kind, "data": data})
            part.title = getattr(part, "title", None) or title


class _Source:
    """Reads what one request names; ``until`` is when its addresses must have answered, in the loop's seconds."""

    def __init__(self, context: Context, owner: str, room: BodyRoom, until: float) -> None:
        self._context = context
        self._owner = owner
        self._room = room
        self._until = until
        self._known: dict[tuple[str, bool], tuple[str, str, str]] = {}

    async def get(self, one: Attachment) -> tuple[str, str, str]:
        """Its base64, its type and its title. What is named twice is read once, and counts twice."""
        known = self._known.get((one.name, one.is_image))
        if known is not None:
            self._take(one, len(known[0]))
            return known
        data, title = await self._file(one) if one.by_id else (await self._fetched(one), one.name)
        kind = next((kind for head, kind in IMAGES.items() if data.startswith(head)), None) if one.is_image else TEXT
        if kind is None:
            raise refused(one.path, "the image is none of PNG, JPEG, WebP and GIF.", code="invalid_image")
        encoded = await self._context.large.run(lambda: b64encode(data).decode(), len(data))
        self._take(one, len(encoded) - len(data))
        self._known[one.name, one.is_image] = encoded, kind, title
        return encoded, kind, title

    def _take(self, one: Attachment, size: int) -> None:
        most = self._context.limits.max_body
        if self._room.size + size > most:
            message = f"with what it names, the request has more than {most} bytes."
            raise refused(one.path, message, code="body_too_large")
        self._room.take(size)

    async def _file(self, one: Attachment) -> tuple[bytes, str]:
        """A file of the owner's, and its name. Another's is not there."""
        context = self._context
        files = Files(
            context.leases, FileLimits(quota=0, files=0, lifetime=0), context.clock, context.archive.confirmed
        )
        try:
            if not ID.fullmatch(one.name):
                raise NotFoundError(one.name)
            file = await files.file(self._owner, one.name)
            if file.purpose not in PURPOSES:
                wanted = f"upload it for {' or '.join(PURPOSES)}."
                raise refused(one.path, f"a file for {file.purpose!r} is no part of a message; {wanted}")
            self._take(one, file.bytes)
            try:
                return b"".join([piece async for piece in files.content(self._owner, file)]), file.filename
            except StoreError:
                await files.file(self._owner, one.name)  # It was deleted meanwhile, or is lost.
                raise
        except NotFoundError:
            raise refused(one.path, f"there is no file {one.name[:80]!r}.", code="file_not_found") from None

    async def _fetched(self, one: Attachment) -> bytes:
        what, kinds = ("an image", IMAGE_KINDS) if one.is_image else ("a text", TEXT_KINDS)
        web, most = self._context.web, (self._context.limits.max_body - self._room.size) // 4 * 3
        assert web is not None, "its address was refused before"
        try:
            async with asyncio.timeout_at(self._until):
                return await web.fetch(one.name, what, kinds, most, self._room.take)
        except TimeoutError:
            message = f"what it names did not come within {SECONDS:g} seconds."
        except ToolFailure as failure:
            message = f"{failure.error.message}."
        raise refused(one.path, message, code="fetch_failed", hint=INSTEAD)
