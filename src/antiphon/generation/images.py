"""The images of a request: what their parts carry, where the prompt has them, and whether they are images at all.

A part is as its wire gave it. Nothing of it is decoded in the server's process: what a client calls an image is a
program for a decoder, and is first run elsewhere, with limits that the kernel keeps (`antiphon.isolation`).
"""

from __future__ import annotations

import asyncio
import io
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace as replace_in

from antiphon.conversation import IMAGES, Message, OpaquePart, Role, TextPart, image_url, text_and_parts
from antiphon.engines import Engine, ImageCounter, PlacedImage
from antiphon.errors import ConfigError, EngineError, Position, RequestError, UnsupportedError
from antiphon.errors.extras import extra
from antiphon.formats import Format
from antiphon.formats.format import PicturedFormat
from antiphon.tokens import Control

if TYPE_CHECKING:
    from antiphon.isolation import Isolation

    from .request import TurnRequest

PARTS = attrgetter("parts")
SEEN = (Role.USER, Role.TOOL)
"""Roles whose images a template can have a place for."""
MIB = 2**20
MOST = 64
"""Images of one request."""
MOST_BYTES = 20 * MIB
MOST_PIXELS = 50_000_000
MOST_SIDE = 16_384
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
AS_THEY_ARE = {("PNG", "L"), ("PNG", "P"), ("PNG", "RGB"), ("PNG", "RGBA"), ("JPEG", "L"), ("JPEG", "RGB")}
"""Formats with modes that every engine reads alike; others become a PNG of three or four channels."""
ORIENTATION = 0x0112
"""The tag of EXIF that says which side is up, which some engines read and others do not."""
SECONDS = 6.0


def parts_of(messages: Sequence[Message]) -> Iterator[tuple[Message, OpaquePart]]:
    """The parts that are images, in their order, each with its message."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, OpaquePart) and part.kind in IMAGES:
                yield message, part


def mark_of(format: Format) -> Sequence[Control]:
    """The controls that stand for an image in the format's prompts; none where it has no place for one."""
    return format.image_mark if isinstance(format, PicturedFormat) else ()


def check_seen(messages: Sequence[Message], *, seen: bool) -> None:
    """Raises `RequestError` (``unsupported_content``) at the first image that a client sends and nobody sees.

    ``seen``: the model sees those of users and tools. What was made here has no place in a request, and is no error.
    """
    for count, (message, part) in enumerate(parts_of(messages), 1):
        if part.path and not (seen and message.role in SEEN):
            raise RequestError(
                f"{part.path}: parts of type {part.kind!r} cannot be read.",
                code="unsupported_content",
                position=Position(path=part.path),
                hint="Send it in a user's message, or in a tool's." if seen else "The models here read text.",
            )
        if count > MOST:
            raise _refused(part, f"at most {MOST} images are read in one request.")


def as_seen(request: TurnRequest, *, seen: bool) -> TurnRequest:
    """The request without media of its history that the model cannot see, which is said in their place.

    Raises as `check_seen` does.
    """
    conversation = request.conversation
    check_seen(conversation.messages, seen=seen)
    messages = tuple(
        without_media(message, [part for _, part in parts_of([message])] if seen and message.role in SEEN else ())
        for message in conversation.messages
    )
    return replace(request, conversation=replace(conversation, messages=messages))


def left_out(count: int) -> str:
    """Words for the model in the place of media."""
    return f"\n[{count} images or other media that cannot be seen here left out]"


def without_media(message: Message, seen: Collection[OpaquePart]) -> Message:
    """The message with the media that are ``seen``; of the others its text says that they were there."""
    left = [part for part in message.parts if isinstance(part, OpaquePart) and part not in seen]
    if not left:
        return message
    note = left_out(len(left))
    parts = [part for part in message.parts if part not in left]
    return replace(message, text=message.text + note, parts=text_and_parts([*parts, TextPart(note)])[1])


def placed(request: TurnRequest, ids: Sequence[int], mark: Sequence[int | None]) -> tuple[PlacedImage, ...]:
    """The images, each at its ``mark`` in the ids of the prompt. Raises `RequestError` at one that carries none.

    Only a template writes controls, so no text of a user is taken for a mark.
    """
    parts = [part for _, part in parts_of(request.conversation.messages)]
    if not parts:
        return ()
    if request.prompt_logprobs is not None:
        raise UnsupportedError("prompt_logprobs with images", position=Position(path="prompt_logprobs"))
    starts = [at for at, id in enumerate(ids) if id == mark[0] and [*ids[at : at + len(mark)]] == [*mark]]
    if len(starts) != len(parts):
        raise _refused(parts[-1], f"the model's template has {len(starts)} places for {len(parts)} images.")
    return tuple(
        PlacedImage(start, start + len(mark), data_of(part), part.path or "messages")
        for start, part in zip(starts, parts, strict=True)
    )


def data_of(part: OpaquePart) -> bytes:
    """The bytes of the file. Raises `RequestError`."""
    head, comma, text = (image_url(part) or "").partition(",")
    if not head:
        raise _refused(part, "it carries no image.", hint="Send one as a data URL, or in base64.")
    if not comma or head[:5].lower() != "data:":
        raise UnsupportedError(
            f"{part.path}: images are not fetched from addresses.",
            position=Position(path=part.path),
            hint="Send the image itself: data:image/png;base64,…",
        )
    if not head.lower().endswith(";base64"):
        raise _refused(part, "a data URL of an image is in base64.")
    if len(text) > MOST_BYTES // 3 * 4 + 4:
        raise _refused(part, f"an image has {MOST_BYTES // MIB} MiB at most.")
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise _refused(part, "it is not base64.") from None
    if not data:
        raise _refused(part, "the image is empty.")
    return data


def _refused(part: OpaquePart, message: str, hint: str | None = None) -> RequestError:
    path = part.path or "messages"
    return RequestError(f"{path}: {message}", code="invalid_image", position=Position(path=path), hint=hint)


class ImageCheck:
    """Decodes images in processes of their own; where no server gave it any, in a thread of this one."""

    def __init__(self) -> None:
        self.isolation: Isolation | None = None

    async def checked(self, images: Sequence[PlacedImage], owner: str) -> tuple[PlacedImage, ...]:
        """The images as every engine reads them. Raises `RequestError` at one that is damaged, too large or none."""
        return tuple([replace_in(image, data=await self._checked(image, owner) or image.data) for image in images])

    async def readable(self, media: Sequence[OpaquePart], owner: str) -> tuple[OpaquePart, ...]:
        """The media without those that are called images and are none, which no prompt could have."""
        kept: list[OpaquePart] = []
        for part in media:
            if part.kind in IMAGES:
                try:
                    await self._checked(PlacedImage(0, 0, data_of(part)), owner)
                except RequestError:
                    continue
            kept.append(part)
        return tuple(kept)

    async def _checked(self, image: PlacedImage, owner: str) -> bytes:
        try:
            if self.isolation is None:
                return await asyncio.to_thread(checked, image.data)
            from antiphon.isolation import Task  # here: who renders a prompt decodes no image

            task = Task(f"{__name__}:checked", "decoding an image", image.path, prepare=f"{__name__}:prepare",
                        processor=4.0, memory=768 * MIB)  # fmt: skip
            seconds = max(SECONDS, self.isolation.seconds) + await self.isolation.ready(task)
            until = asyncio.get_running_loop().time() + seconds
            return await self.isolation.run(task, image.data, owner=owner, until=until)
        except RequestError as error:
            if error.position is None:
                error.message, error.position = f"{image.path}: {error.message}", Position(path=image.path)
                error.args = (error.message,)
            raise


async def prompt_tokens(engine: Engine, ids: Sequence[int], images: Sequence[PlacedImage]) -> int:
    """The tokens of a prompt with its images, which are checked, where the engine counts them; else without.

    A prompt has more of them than its ids; what an engine does not count is told too small, and no error.
    """
    if not images or not isinstance(engine, ImageCounter):
        return len(ids)
    try:
        return await engine.prompt_tokens(ids, images) or len(ids)
    except (EngineError, RequestError):
        return len(ids)


def prepare() -> None:
    """Has the decoders imported."""
    from PIL import Image

    Image.preinit()
    Image.init()


def checked(data: bytes) -> bytes:
    """Decodes an image: b"" where every engine reads it as it is, else the same as PNG. Raises `RequestError`."""
    try:
        with extra("images", "an image"):
            from PIL import Image, ImageOps
    except ConfigError as error:
        raise UnsupportedError(error.message, hint=error.hint) from None
    Image.MAX_IMAGE_PIXELS = None  # Its size is looked at here, before any of its pixels are.
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS or max(width, height) > MOST_SIDE:
                most = f"{MOST_PIXELS // 10**6} million, and {MOST_SIDE} a side,"
                raise RequestError(f"the image has {width} × {height} pixels; {most} are read.", code="invalid_image")
            image.load()
            turned = image.getexif().get(ORIENTATION, 1) != 1
            if (image.format, image.mode) in AS_THEY_ARE and not turned:
                return b""
            upright, out = ImageOps.exif_transpose(image), io.BytesIO()
            mode = "RGBA" if "A" in image.mode or "transparency" in image.info else "RGB"
            upright.convert(mode).save(out, "PNG", compress_level=1)
    except (MemoryError, RequestError):
        raise
    except Exception as error:  # noqa: BLE001 - decoders raise whatever they like
        kind = "none of PNG, JPEG, WebP and GIF" if "cannot identify" in str(error) else "damaged"
        raise RequestError(f"the image is {kind}.", code="invalid_image") from None
    if out.tell() > MOST_BYTES:
        raise RequestError(f"the image has more than {MOST_BYTES // MIB} MiB as a PNG.", code="invalid_image")
    return out.getvalue()
