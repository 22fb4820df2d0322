"""The tools of a transcript: those that run here, and those whose calls go back to the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from antiphon.conversation import Conversation, TextPart
from antiphon.conversation.calls import make_answer, make_call
from antiphon.errors import RenderError
from antiphon.formats.openchatml import DocumentHeader, Fixer, TranscriptEnvelope, Writer
from antiphon.tools import Offer, Router

CALL, REPLY = make_call("functions.f", "{}", "-"), make_answer("functions.f", "-", [TextPart("-")])


def carries_calls(header: DocumentHeader) -> bool:
    """Whether a call and its reply can stand behind it: not in version 1, nor where its capabilities exclude one."""
    writer, fixer = Writer(TranscriptEnvelope(header)), Fixer(header)
    try:
        return bool(writer.write(fixer.message(CALL)) and writer.write(fixer.message(REPLY)))
    except RenderError:
        return False


class ToolPlan(msgspec.Struct, frozen=True):
    """``conversation`` offers the model what it may call; ``router`` answers the calls of tools that run here."""

    conversation: Conversation
    router: Router


def plan_tools(conversation: Conversation, offer: Offer | None, names: Sequence[str] | None) -> ToolPlan:
    """``names`` are the header's ``builtin_tools``: of the offer, those run here; None: all of the offer.

    A function that the transcript declares is its client's own, unless the header names it too; where it declares
    functions, others must be named.
    """
    if offer is None:
        return ToolPlan(conversation, Router(()))
    if names is not None:
        offer = offer.only(names)
    elif conversation.tools:
        offer = offer.only([namespace.name for namespace in offer.builtins])
    return ToolPlan(_offered(conversation, offer), offer.router)


def _offered(conversation: Conversation, offer: Offer) -> Conversation:
    served = {spec.recipient for spec in offer.specs}
    names = {one.name for one in offer.builtins} | {spec.name.partition("__")[0] for spec in offer.specs}
    return replace(
        conversation,
        tools=(*(tool for tool in conversation.tools if tool.recipient not in served), *offer.specs),
        builtins=(*(one for one in conversation.builtins if one.name not in names), *offer.builtins),
    )
