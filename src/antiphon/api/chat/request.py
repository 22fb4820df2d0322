"""Parts that readers of several APIs share: tools of the server, turns that go on, requests without a turn."""

from __future__ import annotations

from antiphon.errors import near
from antiphon.formats import Format
from antiphon.generation import Model
from antiphon.generation.unfinished import OffLoop, TurnMemory
from antiphon.http.context import Context
from antiphon.http.exchange import Exchange
from antiphon.http.post import Post
from antiphon.http.server_tools import ServerToolUse
from antiphon.tools import Offer
from antiphon.wire.errors import refused

from .read import Reading
from .schema import ChatRequest


def server_tools(context: Context, wire: ChatRequest, format: Format, *, session: str) -> ServerToolUse | None:
    """The tools of this server that ``server_tools`` names (true: all); None when there are none to run."""
    requested = context.offer_tools if wire.server_tools is None else wire.server_tools
    if requested is False or requested == []:
        return None
    if context.tools is None:
        if wire.server_tools is None:
            return None
        raise refused("server_tools", "this server has no tools.", code="unsupported_parameter")
    if wire.n not in (None, 1):
        raise refused("n", "with server_tools there is one choice.")
    if wire.session_id:
        raise refused("session_id", "a session and server_tools cannot be had together.", code="unsupported_parameter")
    offer = context.tools.offered(builtins=format.framed)
    if requested is True:
        return ServerToolUse(offer, session)
    for i, name in enumerate(requested):
        if not offer.has(name):
            names = [*(spec.name for spec in offer.specs), *(namespace.name for namespace in offer.builtins)]
            hint = near(name[:64], names)
            raise refused(f"server_tools[{i}]", f"this server has no tool {name[:64]!r}.", hint=hint)
    return ServerToolUse(offer.only(requested), session)


def turn_memory(
    context: Context, exchange: Exchange, model: Model, off_loop: OffLoop, *, exact: bool = False
) -> TurnMemory:
    """The unfinished turns of this client with the model, whichever API they are from. ``exact`` is `TurnMemory`'s."""
    reveals = context.reveals(exchange)
    return TurnMemory(context.turns, exchange.owner, model.name, off_loop, reveals=reveals, exact=exact)


def reading_of(post: Post, stream: bool | None = None, offer: Offer | None = None) -> Reading:
    """``offer``: the tools of the server that stand in the prompt."""
    context = post.context
    return Reading(context.dialect, context.limits, context.today, stream=context.dialect.streams(stream), server=offer)


def offered(context: Context, wire: ChatRequest, model: Model) -> Offer | None:
    """The tools of the server that a chat completion of this request is offered."""
    tools = server_tools(context, wire, model.format, session="")
    return tools.offer if tools else None
