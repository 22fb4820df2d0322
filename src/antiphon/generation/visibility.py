"""What ids would show of a model's reasoning to a client that may not see it."""

from __future__ import annotations

from antiphon.errors import Position, VisibilityError
from antiphon.formats import Format
from antiphon.formats.raw import RawFormat

from .plan import Draft


def check_visible(draft: Draft, *, reveals: bool) -> None:
    """Ids are all that was sampled, and all of a prompt. Raises `VisibilityError` where reasoning may be among them.

    ``reveals``: this client may see it. A raw prompt is the client's own, and its reply has no hidden part.
    """
    request = draft.request
    if reveals or request.raw is not None or not may_think(draft.format):
        return
    of_ids = {"return_token_ids": request.return_token_ids, "prompt_logprobs": request.prompt_logprobs is not None}
    for name, requested in of_ids.items():
        if requested:
            raise VisibilityError(
                f"{name} would show the reasoning of {draft.model.name!r}, which this server hides.",
                position=Position(path=name),
                hint="The server's owner, or a key with the scope debug, can allow it.",
            )


def may_think(format: Format) -> bool:
    """Whether replies of the format may have reasoning. Of a format that nothing is known of they may."""
    # The room of templates takes long to import, and a conversation of another format is read without it.
    from antiphon.formats.template.reply_format import ReplyFormat

    if isinstance(format, ReplyFormat):
        return format.replies.reasoning is not None
    return not isinstance(format, RawFormat)
