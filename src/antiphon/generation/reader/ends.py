"""The ids that end a reply and are none of the format's own words."""

from __future__ import annotations

from antiphon.formats import Format
from antiphon.generation.model import stop_ids
from antiphon.generation.plan import Draft
from antiphon.tokens import Control, Tokenizer


def requested_ends(plan: Draft) -> frozenset[int]:
    """The request's own stop ids, without those that end a reply in any case."""
    request = plan.request
    if request.ignore_eos or not request.stop_token_ids:
        return request.stop_token_ids
    return request.stop_token_ids - stop_ids(plan.format, plan.model.tokenizer) - plan.model.engine.info.end_ids


def foreign_ends(plan: Draft) -> frozenset[int]:
    """The model's end tokens that the format does not know: they end the reply and are no part of it.

    ``ignore_eos``: the format's own ends too, which then end nothing.
    """
    tokenizer, format = plan.model.tokenizer, plan.format
    if plan.request.ignore_eos:
        return plan.model.engine.info.end_ids | stop_ids(format, tokenizer)
    ends = plan.model.engine.info.end_ids
    return frozenset(id for id in ends if not _knows(format, tokenizer, id))


def _knows(format: Format, tokenizer: Tokenizer, id: int) -> bool:
    """Whether the id is one of the format's own words."""
    end = tokenizer.piece(id)
    if not isinstance(end, Control) or tokenizer.control_id(end) != id:
        return False
    return end in format.controls or end in format.stops
