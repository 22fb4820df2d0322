"""What a turn gives: event by event, or all that one step of its engine was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from antiphon.conversation import Event, TokenLogprob

PromptLogprobs = Sequence[TokenLogprob | None]
"""One for each id of a prompt, None for the first: nothing comes before it."""
Happened_co = TypeVar("Happened_co", covariant=True)


class ChoiceEvent(msgspec.Struct, frozen=True):
    """What happened in one of the ``n`` choices of a turn, for which ``completion_tokens`` were sampled so far."""

    choice: int
    event: Event
    completion_tokens: int = 0


class StepEvents(msgspec.Struct, Generic[Happened_co], frozen=True, gc=False):
    """What one step of an engine was to one choice: at least one event, and the tokens of the choice so far.

    ``ids``: what was sampled since the choice's last step, where the request has ``return_token_ids``. ``prompt``: the
    log probability of each id of the prompt (None for the first), with a choice's first step, where it has
    ``prompt_logprobs``. ``cached_tokens``: those of the prompt that needed no evaluation, None: not reported yet.
    """

    choice: int
    events: Sequence[Happened_co]
    completion_tokens: int = 0
    ids: tuple[int, ...] = ()
    prompt: PromptLogprobs | None = None
    cached_tokens: int | None = None
