"""How a request without a turn is read."""

from __future__ import annotations

from antiphon.generation import Model
from antiphon.http.context import Context
from antiphon.http.post import Post
from antiphon.http.server_tools import server_tools
from antiphon.tools import Offer

from .chat.read import Reading
from .chat.schema import ChatRequest


def reading_of(post: Post, stream: bool | None = None, offer: Offer | None = None) -> Reading:
    """``offer``: the tools of the server that stand in the prompt."""
    context = post.context
    return Reading(context.dialect, context.limits, context.today, stream=context.dialect.streams(stream), server=offer)


def offered(context: Context, wire: ChatRequest, model: Model) -> Offer | None:
    """The tools of the server that a chat completion of this request is offered."""
    tools = server_tools(context, wire, model.format, session="")
    return tools.offer if tools else None
