"""Turns: prompt → engine → parser → events."""

from .held import held, prepare_turn
from .model import Model
from .plan import Plan, plan_turn
from .request import TurnRequest
from .turn import ChoiceEvent, Reply, collect, merge_usage, reply_of, run_turn

__all__ = [
    "ChoiceEvent",
    "Model",
    "Plan",
    "Reply",
    "TurnRequest",
    "collect",
    "merge_usage",
    "held",
    "plan_turn",
    "prepare_turn",
    "reply_of",
    "run_turn",
]
