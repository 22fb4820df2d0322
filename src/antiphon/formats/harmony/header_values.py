"""Which values a header may have: those that are read back as what they were written for, and as nothing else."""

from __future__ import annotations

from functools import lru_cache

from antiphon.conversation import Message, Role
from antiphon.errors import Position, RenderError

from .header import CONTENT_TYPES, ROLES
from .header_reader import known_channel


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
    if recipient is not None and not _is_recipient(recipient) and (recipient or type):  # nobody's call has no type
        raise _refused("recipient", recipient)
    if channel is not None and (not is_word(channel) or "<" in channel):
        raise _refused("channel", channel)
    if type and (not is_word(type.removeprefix(" ") if constrained else type) or _is_marked(type)):
        raise _refused("content_type", type)
    if type and not constrained and recipient is None and type not in CONTENT_TYPES:
        raise _refused("content_type", type)  # the last word of a header is the recipient, if nothing else is one


def is_word(value: str) -> bool:
    """Whether a value stands in a header as it is: visible characters, no blank, no control's spelling or escape."""
    return bool(value) and value.isprintable() and " " not in value and "<|" not in value and value[-1] != "<"


def _is_recipient(value: str) -> bool:
    """Whether it ends where a recipient does: content that follows one begins with a bracket or a quote (F-04)."""
    return is_word(value) and not any(mark in value for mark in "<{([\"'`") and not value.endswith(".")


def _is_author(name: str) -> bool:
    """Whether a tool's name in place of the role would be read as somebody else's, or as an attribute.

    As models write them, roles are also read doubled, or joined with a name, a channel or a recipient (R-07).
    """
    role = next((role for role in ROLES if name.startswith(role)), None)
    if role is None or name == Role.TOOL:
        return _is_marked(name)
    tail = name
    while tail.startswith(role):
        tail = tail[len(role) :]
    return not tail or tail.startswith(":") or _is_marked(tail) or known_channel(tail) is not None


def _is_marked(value: str) -> bool:
    return value.startswith(("to=", "to:"))


def _refused(field: str, value: str) -> RenderError:
    return RenderError(
        f"{value[:80]!r} as {field} of a Harmony message would be read as another header",
        code="header_value",
        position=Position(path=field),
        hint="A value is one word of visible characters; it spells no control and does not begin with to=.",
    )
