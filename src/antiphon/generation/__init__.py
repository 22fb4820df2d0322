"""Turns: prompt → engine → parser → events."""

from .embedding import EmbeddingPlan, embed, plan_embedding
from .event import ChoiceEvent, Filter
from .held import held, prepare_turn
from .model import EmbeddingSpec, Model
from .plan import Plan, check_conversation, check_numbers, plan_turn
from .ranges import BIAS, MAX_LOGPROBS, MAX_STOP_LENGTH, RANGES, Range
from .reply import Reply, collect, merge_usage, reply_of
from .request import TurnRequest
from .turn import run_turn

__all__ = [
    "BIAS",
    "MAX_LOGPROBS",
    "MAX_STOP_LENGTH",
    "RANGES",
    "Range",
    "ChoiceEvent",
    "Filter",
    "EmbeddingPlan",
    "EmbeddingSpec",
    "Model",
    "Plan",
    "Reply",
    "TurnRequest",
    "check_conversation",
    "check_numbers",
    "collect",
    "embed",
    "merge_usage",
    "held",
    "plan_embedding",
    "plan_turn",
    "prepare_turn",
    "reply_of",
    "run_turn",
]
