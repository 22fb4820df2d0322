"""Chat completions with tools that run on this side: only where the request, or the server's owner, says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from antiphon.conversation import MessageEnded, MessageStarted
from antiphon.formats import Format
from antiphon.generation import ChoiceEvent, Plan, TurnRequest, prepare_turn
from antiphon.generation.rounds import Rounds
from antiphon.tools import Offer, ToolCancelled, ToolEnded, ToolStarted
from antiphon.wire.chat.messages import refused
from antiphon.wire.chat.schema import ChatRequest

from .context import Context


@dataclass(frozen=True, slots=True)
class Served:
    """What one request is offered of our tools, and the router that answers its calls to them."""

    offer: Offer

    def added_to(self, turn: TurnRequest) -> TurnRequest:
        """The turn with our tools beside the caller's."""
        conversation = turn.conversation
        ours = {spec.name for spec in self.offer.specs}
        for i, tool in enumerate(conversation.tools):
            if tool.name in ours:
                raise refused(f"tools[{i}].function.name", f"{tool.name!r} is a tool of this server.")
        tools = (*conversation.tools, *self.offer.specs)
        return replace(turn, conversation=replace(conversation, tools=tools, builtins=self.offer.builtins))


def served(context: Context, wire: ChatRequest, format: Format) -> Served | None:
    """The tools of ours that ``server_tools`` names (true: all); None when there are none to run."""
    wanted = context.offer_tools if wire.server_tools is None else wire.server_tools
    if wanted is False or wanted == []:
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
    return Served(offer if wanted is True else _only(offer, list(wanted)))


def _only(offer: Offer, names: list[str]) -> Offer:
    """The part of the offer that goes by these names: a namespace (browser), or a function."""
    specs = [spec for spec in offer.specs if spec.name in names or spec.name.partition("__")[0] in names]
    builtins = [namespace for namespace in offer.builtins if namespace.name in names]
    known = {spec.name for spec in specs} | {spec.name.partition("__")[0] for spec in specs}
    known |= {namespace.name for namespace in builtins}
    for i, name in enumerate(names):
        if name not in known:
            raise refused(f"server_tools[{i}]", f"this server has no tool {name[:64]!r}.")
    recipients = {spec.recipient for spec in specs}
    recipients |= {r for r in offer.router.recipients for n in builtins if r == n.name or r.startswith(f"{n.name}.")}
    return Offer(tuple(specs), tuple(builtins), offer.router.only(recipients))


async def served_events(plan: Plan, ours: Served, session: str) -> AsyncGenerator[ChoiceEvent, None]:
    """The events of all turns as the client sees them: calls that run here, and what they gave, are not among them."""
    rounds = Rounds(plan.model, plan.request, ours.offer.router, prepare_turn, session=session)
    hidden = False
    async with aclosing(rounds.run()) as events:
        async for event in events:
            if isinstance(event, ToolStarted | ToolEnded | ToolCancelled):
                continue
            if isinstance(event, MessageStarted):
                message = event.message
                hidden = message.is_call and ours.offer.router.serves(message.recipient or "")
            if not hidden:
                yield ChoiceEvent(0, event, rounds.completion_tokens)
            hidden = hidden and not isinstance(event, MessageEnded)
