"""Notes on a prompt: its ids, their log probabilities, what it keeps of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from antiphon.conversation import TokenLogprob

if TYPE_CHECKING:  # to read a request needs no models
    from antiphon.generation import PrefixReport

NO_LOGPROB = -9999.0
"""JSON has no minus infinity; this is what OpenAI says for it."""


class PromptLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """One token at its place. ``rank`` counts from 1; null: it is not among the alternatives that were requested."""

    logprob: float
    rank: int | None
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]
"""For each token of a prompt itself and the alternatives, by their ids; null for the first (vLLM's form)."""


class LostPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """The first token ``at`` which the prompt is another one, what caused it, and the message of the request."""

    at: int
    cause: str
    message: int | None = None


class KeptPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """``kept`` tokens of an earlier prompt with its reply, which had ``former``; null where none is known.

    ``bridgeable``: all of them can be kept, with the ``prefix_policy`` of that name.
    """

    kept: int
    former: int | None
    bridgeable: bool
    lost: LostPrefix | None = None


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """Notes on a prompt for which no other API has a field."""

    prefix: KeptPrefix


def notes_of(report: PrefixReport | None, message: int | None) -> Notes | msgspec.UnsetType:
    """Reports on the prefix where that was requested; ``message`` is the number of the one that lost it."""
    if report is None:
        return msgspec.UNSET
    loss = report.lost
    lost = None if loss is None else LostPrefix(at=loss.at, cause=loss.cause, message=message)
    return Notes(prefix=KeptPrefix(kept=report.kept, former=report.former, bridgeable=report.bridgeable, lost=lost))


def prompt_logprobs(scores: Sequence[TokenLogprob | None], alternatives: int) -> PromptLogprobs:
    return [None if one is None else _entry(one, alternatives) for one in scores]


def _entry(one: TokenLogprob, alternatives: int) -> dict[str, PromptLogprob]:
    ranks = {other.id: rank for rank, other in enumerate(one.top, 1)}
    return {
        str(each.id): PromptLogprob(
            logprob=finite(each.logprob),
            rank=ranks.get(each.id),
            decoded_token=each.data.decode("utf-8", "replace"),
        )
        for each in (one, *one.top[:alternatives])
    }


def finite(logprob: float) -> float:
    """A log probability that JSON can say."""
    return max(logprob, NO_LOGPROB) if logprob == logprob else NO_LOGPROB
