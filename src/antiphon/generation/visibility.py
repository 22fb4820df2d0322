"""Refusal of ids that would show a model's reasoning to a client that may not see it."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.errors import Position, RequestError, VisibilityError
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
    for name in request.of_ids:
        raise VisibilityError(
            f"{name} would show the reasoning of {draft.model.name!r}, which this server hides.",
            position=Position(path=name),
            hint="The server's owner, or a key with the scope debug, can allow it.",
        )


def check_prompts(drafts: Sequence[Draft], *, reveals: bool, scored: int) -> None:
    """Checks that the client may know what it requests of the prompts' ids, and that it is not too much.

    Raises what `check_visible` raises, and `RequestError` for log probabilities of more than ``scored`` tokens.
    """
    for draft in drafts:
        check_visible(draft, reveals=reveals)
    requested = sum(len(draft.prompt_ids) for draft in drafts if draft.request.prompt_logprobs is not None)
    if requested <= scored:
        return
    error = RequestError(
        f"log probabilities of {requested} tokens of prompts are requested; at most {scored} are possible at once.",
        code="invalid_value",
        position=Position(path="prompt_logprobs"),
        hint="Send fewer prompts in one request, or shorter ones.",
    )
    drafts[0].request.reword(error)
    raise error


def may_think(format: Format) -> bool:
    """Whether replies of the format may have reasoning. Of a format that nothing is known of they may."""
    # The room of templates takes long to import, and a conversation of another format is read without it.
    from antiphon.formats.replies.reply_format import ReplyFormat

    if isinstance(format, ReplyFormat):
        return format.replies.reasoning is not None
    return not isinstance(format, RawFormat)
