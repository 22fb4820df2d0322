"""Which values a header may have: none that is read as another of its fields, or as another header."""

from __future__ import annotations

from functools import lru_cache

from antiphon.conversation import Message, Role
from antiphon.errors import Position, RenderError

from .header import CONTENT_TYPES, ROLES
from .header_reader import known_channel


def check_header(message: Message) -> None:
    """Raises `RenderError`, code ``header_value``, for a value of the header that forges another one.

    A header is words between blanks, and a word's place and prefix say what it is: a control character, a word that
    begins with ``to=``, or a role in place of a tool's name would make another header of it. A blank or a control's
    spelling that forges nothing is written as the reference writes it.
    """
    recipient = None if message.recipient == "all" else message.recipient
    _check(
        message.role, message.name, recipient, message.channel, message.content_type, constrained=message.constrained
    )


@lru_cache(maxsize=1024)
def _check(
    role: Role, name: str | None, recipient: str | None, channel: str | None, type: str | None, *, constrained: bool
) -> None:
    if name is not None and (not _is_plain(name) or (role is Role.TOOL and _is_author(name))):
        raise _refused("name", name)
    if recipient is not None and not _is_recipient(recipient) and (recipient or type):  # nobody's call has no type
        raise _refused("recipient", recipient)
    if channel is not None and not _is_plain(channel):
        raise _refused("channel", channel)
    if type and not _is_type(type.removeprefix(" ") if constrained else type, constrained, recipient):
        raise _refused("content_type", type)


def _is_type(type: str, constrained: bool, recipient: str | None) -> bool:
    """Whether it is read as a content type: the last word of a header is the recipient, if nothing else is one."""
    if recipient is None:
        return _is_plain(type) and (" " not in type if constrained else type in CONTENT_TYPES)
    return _is_plain(type)


def _is_plain(value: str) -> bool:
    """Whether a value is visible characters and blanks, of which no word is an attribute."""
    return bool(value.strip()) and value.isprintable() and not any(map(_is_marked, value.split(" ")))


def _is_recipient(value: str) -> bool:
    """Whether it ends where a recipient does: content that follows one begins with a bracket or a quote (F-04)."""
    return _is_plain(value) and not any(mark in value for mark in "{([\"'`") and not value.endswith(".")


def _is_author(name: str) -> bool:
    """Whether a tool's name in place of the role would be read as somebody else's.

    As models write them, roles are also read doubled, or joined with a name, a channel or a recipient (R-07).
    """
    word = name.strip().partition(" ")[0]
    role = next((role for role in ROLES if word.startswith(role)), None)
    if role is None or name == Role.TOOL:
        return False
    tail = word
    while tail.startswith(role):
        tail = tail[len(role) :]
    return not tail or tail.startswith((":", "<|")) or _is_marked(tail) or known_channel(tail) is not None


def _is_marked(value: str) -> bool:
    return value.startswith(("to=", "to:"))


def _refused(field: str, value: str) -> RenderError:
    return RenderError(
        f"{value[:80]!r} as {field} of a Harmony message would be read as another header",
        code="header_value",
        position=Position(path=field),
        hint="A value is one word of visible characters; it is no role and does not begin with to=.",
    )
