"""Turns: prompt → engine → reader → events."""

from .constrain import constrain, prepare_turn
from .embedding import Comparison, EmbeddingPlan, Placed, RankingPlan, embed, plan_embedding, plan_ranking, rank
from .meter import UNMETERED, Meter, TimeLimits, TurnMeter
from .model import (
    Capabilities,
    Capability,
    EmbeddingSpec,
    FileFacts,
    Model,
    ModelFacts,
    RankingSpec,
    offers_tools,
    reasons,
)
from .plan import Draft, Plan, check_conversation, check_numbers, plan_turn, without_idle_arguments
from .precedence import DEFAULTS, NOTHING_CUT, Layer, Setting, Source, context_of, settings
from .prefix import PrefixLoss, PrefixReport
from .reply import ChoiceEvent, Reply, StepEvents, collect, merge_usage, reply_of
from .request import BIAS, MAX_LOGPROBS, MAX_STOP_LENGTH, RANGES, Overflow, Range, TurnRequest
from .rounds import RoundEvent, RoundLimits, Rounds, run_rounds, turns_of
from .turn import prompt_read, run_turn
from .visibility import check_prompts, check_visible

__all__ = [
    "BIAS",
    "Capabilities",
    "Capability",
    "DEFAULTS",
    "MAX_LOGPROBS",
    "MAX_STOP_LENGTH",
    "NOTHING_CUT",
    "RANGES",
    "Range",
    "ChoiceEvent",
    "StepEvents",
    "Draft",
    "EmbeddingPlan",
    "EmbeddingSpec",
    "FileFacts",
    "Layer",
    "Meter",
    "TimeLimits",
    "TurnMeter",
    "UNMETERED",
    "Model",
    "ModelFacts",
    "Overflow",
    "Plan",
    "PrefixLoss",
    "PrefixReport",
    "Reply",
    "RoundEvent",
    "RoundLimits",
    "Rounds",
    "Setting",
    "Source",
    "TurnRequest",
    "check_conversation",
    "check_numbers",
    "check_prompts",
    "check_visible",
    "Comparison",
    "Placed",
    "RankingPlan",
    "RankingSpec",
    "collect",
    "constrain",
    "context_of",
    "embed",
    "merge_usage",
    "offers_tools",
    "plan_embedding",
    "plan_ranking",
    "plan_turn",
    "prepare_turn",
    "prompt_read",
    "rank",
    "reasons",
    "reply_of",
    "run_rounds",
    "run_turn",
    "settings",
    "turns_of",
    "without_idle_arguments",
]
