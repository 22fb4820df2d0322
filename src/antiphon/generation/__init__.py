"""Turns: prompt → engine → reader → events."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .constraint import constrain as constrain
    from .constraint import prepare_turn as prepare_turn
    from .embedding import Comparison as Comparison
    from .embedding import EmbeddingPlan as EmbeddingPlan
    from .embedding import Placed as Placed
    from .embedding import RankingPlan as RankingPlan
    from .embedding import embed as embed
    from .embedding import plan_embedding as plan_embedding
    from .embedding import plan_ranking as plan_ranking
    from .embedding import rank as rank
    from .meter import UNMETERED as UNMETERED
    from .meter import Meter as Meter
    from .meter import TimeLimits as TimeLimits
    from .meter import TurnMeter as TurnMeter
    from .model import Capabilities as Capabilities
    from .model import Capability as Capability
    from .model import EmbeddingSpec as EmbeddingSpec
    from .model import FileFacts as FileFacts
    from .model import Model as Model
    from .model import ModelFacts as ModelFacts
    from .model import RankingSpec as RankingSpec
    from .model import offers_tools as offers_tools
    from .model import reasons as reasons
    from .normalize import normalized as normalized
    from .plan import Draft as Draft
    from .plan import Plan as Plan
    from .plan import check_conversation as check_conversation
    from .plan import check_numbers as check_numbers
    from .plan import plan_turn as plan_turn
    from .precedence import DEFAULTS as DEFAULTS
    from .precedence import NOTHING_CUT as NOTHING_CUT
    from .precedence import Layer as Layer
    from .precedence import Setting as Setting
    from .precedence import Source as Source
    from .precedence import context_of as context_of
    from .precedence import settings as settings
    from .prefix import PrefixLoss as PrefixLoss
    from .prefix import PrefixReport as PrefixReport
    from .reply import ChoiceEvent as ChoiceEvent
    from .reply import Reply as Reply
    from .reply import StepEvents as StepEvents
    from .reply import collect as collect
    from .reply import merge_usage as merge_usage
    from .reply import reply_of as reply_of
    from .request import BIAS as BIAS
    from .request import MAX_LOGPROBS as MAX_LOGPROBS
    from .request import MAX_STOP_LENGTH as MAX_STOP_LENGTH
    from .request import RANGES as RANGES
    from .request import Overflow as Overflow
    from .request import Range as Range
    from .request import TurnRequest as TurnRequest
    from .rounds import RoundEvent as RoundEvent
    from .rounds import RoundLimits as RoundLimits
    from .rounds import Rounds as Rounds
    from .rounds import run_rounds as run_rounds
    from .rounds import turns_of as turns_of
    from .turn import prompt_read as prompt_read
    from .turn import run_turn as run_turn
    from .visibility import check_prompts as check_prompts
    from .visibility import check_visible as check_visible
else:
    __getattr__ = exports(
        __name__,
        {
            "constraint": "constrain prepare_turn",
            "embedding": "Comparison EmbeddingPlan Placed RankingPlan embed plan_embedding plan_ranking rank",
            "meter": "Meter TimeLimits TurnMeter UNMETERED",
            "model": (
                "Capabilities Capability EmbeddingSpec FileFacts Model ModelFacts RankingSpec offers_tools reasons"
            ),
            "normalize": "normalized",
            "plan": "Draft Plan check_conversation check_numbers plan_turn",
            "precedence": "DEFAULTS Layer NOTHING_CUT Setting Source context_of settings",
            "prefix": "PrefixLoss PrefixReport",
            "reply": "ChoiceEvent Reply StepEvents collect merge_usage reply_of",
            "request": "BIAS MAX_LOGPROBS MAX_STOP_LENGTH Overflow RANGES Range TurnRequest",
            "rounds": "RoundEvent RoundLimits Rounds run_rounds turns_of",
            "turn": "prompt_read run_turn",
            "visibility": "check_prompts check_visible",
        },
    )
