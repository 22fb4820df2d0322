"""One function decides what an end user may see; every output calls it (resolutions A-O32 … A-O34)."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.errors import VisibilityError

from .message import Channel, Intent, Message, Role


@dataclass(frozen=True, slots=True)
class DebugCapability:
    """For a caller whom the server's owner allows to see hidden channels. ``holder`` says who, for the log."""

    holder: str


def visible_to_user(message: Message) -> bool:
    """Shown: the user's own messages and the assistant's, where they are final, and preambles. Hidden: all else."""
    match message.role:
        case Role.USER:
            return message.effective_channel == Channel.FINAL
        case Role.ASSISTANT:
            if message.intent == Intent.DEBUG:
                return False
            return (message.effective_channel == Channel.FINAL and not message.is_call) or message.is_preamble
        case _:
            return False


def require_visible(message: Message, *, debug: DebugCapability | None = None) -> Message:
    """The message, if it may be shown to an end user; else `VisibilityError` with code ``E-PERM-VISIBILITY``."""
    if debug is not None or visible_to_user(message):
        return message
    raise VisibilityError(
        f"a {message.role} message on channel {message.effective_channel!r} is not for end users",
        hint="Only final answers and preambles are shown; a debug capability is needed for more.",
    )
