"""How a request without a turn is read."""

from __future__ import annotations

from antiphon.http.post import Post
from antiphon.wire.chat.read import Reading


def reading_of(post: Post, stream: bool | None = None) -> Reading:
    context = post.context
    return Reading(context.dialect, context.limits, context.today, stream=context.dialect.streams(stream))
