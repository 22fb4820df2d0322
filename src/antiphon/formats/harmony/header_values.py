"""Which values a header may have: those that are read back as what they were written for, and as nothing else."""

from __future__ import annotations

from functools import lru_cache

from antiphon.conversation import Message, Role
from antiphon.errors import Position, RenderError

from .header import CONTENT_TYPES, ROLES


def check_header(message: Message) -> None:
    """Raises `RenderError`, code ``header_value``, for a name, recipient, channel or content type that is no one word.

    A header is words between blanks, and a word's place and prefix say what it is: a blank in a value, a control's
    spelling, ``to=`` or a role's name would make another header of it.
    """
    recipient = None if message.recipient == "all" else message.recipient
    _check(
        message.role, message.name, recipient, message.channel, message.content_type, constrained=message.constrained
    )


@lru_cache(maxsize=1024)
def _check(
    role: Role, name: str | None, recipient: str | None, channel: str | None, type: str | None, *, constrained: bool
) -> None:
    if name is not None and (not is_word(name) or (role is Role.TOOL and _is_author(name))):
        raise _refused("name", name)
    if recipient is not None and not is_word(recipient) and (recipient or type):  # nobody's call has no type
        raise _refused("recipient", recipient)
    if channel is not None and (not is_word(channel) or "<" in channel):
        raise _refused("channel", channel)
    if type and (not is_word(type.removeprefix(" ") if constrained else type) or _is_marked(type)):
        raise _refused("content_type", type)
    if type and not constrained and recipient is None and type not in CONTENT_TYPES:
        raise _refused("content_type", type)  # the last word of a header is the recipient, if nothing else is one


def is_word(value: str) -> bool:
    """Whether a value stands in a header as it is: visible characters, no blank, no control's spelling."""
    return value.isprintable() and " " not in value and "<|" not in value and bool(value)


def _is_author(name: str) -> bool:
    """Whether a tool's name in place of the role would be read as somebody else's, or as an attribute."""
    role, colon, _ = name.partition(":")
    return _is_marked(name) or (role in ROLES and (bool(colon) or role != Role.TOOL))


def _is_marked(value: str) -> bool:
    return value.startswith(("to=", "to:"))


def _refused(field: str, value: str) -> RenderError:
    return RenderError(
        f"{value[:80]!r} cannot be the {field.replace('_', ' ')} of a Harmony message: it would be read as another header",
        code="header_value",
        position=Position(path=field),
        hint="A value is one word of visible characters; it spells no control and does not begin with to=.",
    )
