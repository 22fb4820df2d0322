"""A message's header as a dialect writes it by itself (R-01)."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.conversation import Channel, Message, Role
from antiphon.errors import RenderError
from antiphon.tokens import Piece

from .controls import CHANNEL, CONSTRAIN
from .options import Dialect


def own_header(message: Message, dialect: Dialect) -> Iterator[Piece]:
    """What stands between ``<|start|>`` and ``<|message|>``. Raises `RenderError` for a tool without a name."""
    yield from _author(message)
    recipient = None if message.recipient in (None, "all") else f" to={message.recipient}"
    recipient_last = dialect == "b" and message.channel == Channel.COMMENTARY
    if recipient and not recipient_last:
        yield recipient
    if message.channel is not None:
        yield CHANNEL
        yield message.channel
    if recipient and recipient_last:
        yield recipient
    if message.content_type is not None:
        yield from _content_type(message.content_type, message.constrained or dialect == "b")


def _author(message: Message) -> Iterator[Piece]:
    if message.role is not Role.TOOL:
        yield message.role.value
        if message.name is not None:
            yield f":{message.name}"
        return
    if message.name is None:
        raise RenderError(
            "Tools should have a name!", code="tool_without_name", hint="Set the message's name, e.g. functions.f."
        )
    yield message.name


def _content_type(content_type: str, constrained: bool) -> Iterator[Piece]:
    if not constrained:
        yield f" {content_type}"
        return
    yield " "
    yield CONSTRAIN
    if content_type:
        yield content_type
