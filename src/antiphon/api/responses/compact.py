"""Lets the model write the summary that a compaction is."""

from __future__ import annotations

from functools import partial

from antiphon.conversation import Event
from antiphon.generation import Model, StepEvents, TurnRequest, constrain, plan_turn
from antiphon.generation.turn import steps
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post

from .compaction import Compaction, summary_of, summary_turn


async def compacted(post: Post, model: Model, turn: TurnRequest) -> Compaction | None:
    """The model's summary of ``turn``'s conversation, encrypted for its owner; None where the model wrote none.

    It is written when it is this request's turn.
    """
    draft = await post.off_loop(lambda: plan_turn(model, summary_turn(turn)), more=post.context.limits.off_loop_above)
    plan = await constrain(draft)
    events: list[Event] = []

    def collect(step: StepEvents[Event]) -> None:
        events.extend(step.events)

    run = post.driver([partial(steps, plan, post.meter())])
    async with post.admitted():
        await post.run(run(collect, _nothing), Work())
    summary = summary_of(events)
    if summary is None:
        return None
    return Compaction(summary, post.context.cipher.encrypt(summary.message, post.exchange.owner, "compaction"))


def _nothing(written: None) -> None:
    """All of it is read at its end."""
