"""The request for one turn, whichever API it came by."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Literal

import msgspec

from antiphon.conversation import Conversation, Role, ToolChoice, ToolSpec, recipients_of
from antiphon.errors import RequestError
from antiphon.formats import NO_OPINION, HistoryPolicy, SamplingDefaults
from antiphon.formats.raw import RawFormat
from antiphon.tenancy import NOBODY, Tenant

from .reply import Digests

# Where the numbers of a request must lie, whichever engine answers it.


class Range(msgspec.Struct, frozen=True):
    """Numbers from ``low`` to ``high``; with ``above``, ``low`` itself is none of them."""

    low: float
    high: float
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high and not (self.above and value == self.low)

    def __str__(self) -> str:
        high = int(self.high)
        upper = f"2^{high.bit_length()} - 1" if high > 2**16 else str(self.high)
        return f"{'(' if self.above else '['}{self.low}, {upper}]"


MAX_LOGPROBS = 20
"""Alternatives beside each token, at most."""
MAX_STOP_LENGTH = 1024
"""Characters of a stop string, at most."""
RANGES: Mapping[str, Range] = {
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(-1, 2**31 - 1),
    "min_p": Range(0, 1),
    "presence_penalty": Range(-2, 2),
    "frequency_penalty": Range(-2, 2),
    "repetition_penalty": Range(0, 2, above=True),
    "max_tokens": Range(0, 2**63 - 1),
    "min_tokens": Range(0, 2**63 - 1),
    "seed": Range(-(2**63), 2**64 - 1),
    "logprobs": Range(0, MAX_LOGPROBS),
    "prompt_logprobs": Range(0, MAX_LOGPROBS),
    "thinking_token_budget": Range(-1, 2**63 - 1),
}
"""By the fields of `TurnRequest`. What an engine cannot do narrows them further."""
BIAS = Range(-100, 100)
"""The range of an entry of ``logit_bias``."""


_ASKS_FOR_AN_EXAMPLE = re.compile(
    r"\b(examples?|samples?|syntax|format|illustration|demonstration)\s+"
    r"((of|for|a|an|the|such|how|to|you|i|would|could|one|this|that|valid|tool|function|api|json)\s+){0,6}calls?\b"
    r"|\b(tool|function)\W+calls?\b\W+(\w+\W+){0,4}looks?\b"
    r"|\blooks?\b\W+(\w+\W+){0,3}\blike\b.{0,80}\bcalls?\b"
    r"|\bhow\b\W+(\w+\W+){0,6}calls?\b\W+(\w+\W+){0,4}(is|are|be|would)?\W*(written|formatted|spelled|look)",
    re.IGNORECASE | re.DOTALL,
)
_MOST = 4000
"""Characters at the end of a question that are looked at."""


class Overflow(Enum):
    """The fate of a request whose prompt leaves no room in the context."""

    REFUSE = "refuse"
    """A `ContextError`."""
    EMPTY_ANSWER = "empty_answer"
    """No token is sampled, and the reply ends for its length (resolution X-27)."""
    DROP_OLDEST = "drop_oldest"
    """The oldest turns of the conversation are left out, as many as need be."""


def unchanged(error: RequestError) -> None:
    """The names of `TurnRequest`'s fields, and of a chat's parameters, are the wire's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A conversation and how to go on with it. None everywhere means "not given": the model's default applies.

    ``stop`` ends the answer where one of the strings occurs in its decoded text; the string itself is left out, but for
    ``include_stop``.
    No answer has more than ``most_tokens``, whatever else allows more; ``documented`` are the defaults of a strict
    dialect's document, ``fallback`` those of another's, for a model of which nobody recommends any. ``logprobs`` is the
    number of alternatives requested beside each token's own (0 … 20).
    """

    conversation: Conversation
    n: int = 1
    max_tokens: int | None = None
    most_tokens: int | None = None
    documented: SamplingDefaults = NO_OPINION
    fallback: SamplingDefaults = NO_OPINION
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    """Ids that end the reply and are no part of it, beside the format's own ends."""
    ignore_eos: bool = False
    min_tokens: int | None = None
    """No end of the model's and no stop id comes before so many tokens; a stop string may."""
    include_stop: bool = False
    """An answer that a stop string ends has it as its last characters."""
    return_token_ids: bool = False
    """Steps bring the ids that were sampled; what was sampled is remembered, so that a next prompt keeps its ids."""
    prompt_logprobs: int | None = None
    """The number of alternatives requested beside each id of the prompt (0 … 20)."""
    explain_prefix: bool = False
    """The plan says how much of an earlier prompt this one goes on with, and what ended that."""
    prefix_policy: Literal["bridge", "template"] = "bridge"
    """``bridge``: the prompt begins with the ids of a remembered turn, where it can; ``template``: with no such ids."""
    storable: bool = True
    """The ids of the turn may be stored, not only remembered by this process."""
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tool_calls: bool = True
    history: HistoryPolicy = HistoryPolicy.GUIDE
    tenant: Tenant = NOBODY
    overflow: Overflow = Overflow.REFUSE
    raw: RawFormat | None = None
    """In place of the model's format: the prompt is its text as it is, and only the conversation's
    ``response_format`` constrains the reply."""
    reword: Callable[[RequestError], object] = unchanged
    """Is given each error of planning before it is raised: a wire sets its own names of parameters, and its hints."""
    best_effort: bool = False
    """An engine that takes no grammars may try without; otherwise such a request is refused."""
    finish: Literal["always"] | None = None
    """``always``: a constrained reply is whole at its limit, by the shortest ending (`generation.finish`)."""
    any_call: bool = False
    """The tools stand in the words of the messages, as a transcript has them: whatever the model calls is a call."""
    reads_miscalls: bool = False
    """Calls of what is not there are read as calls: who runs the turn answers them."""
    thinking: bool | None = None
    """Whether the model thinks before it answers; None: as it does by itself."""
    thinking_token_budget: int | None = None
    """Tokens after which the thought of the reply ends; 0: there is none; -1: no bound."""
    call_key: str = field(default_factory=partial(secrets.token_hex, 16), compare=False, repr=False)
    """The source of the ids of the reply's calls, where the model gives none (`generation.call_ids`)."""
    _digests: list[Digests] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def digests(self) -> Digests:
        """The digests of its conversation, which are made once."""
        if not self._digests:
            self._digests.append(Digests(self.tenant.domain(), self.conversation.messages))
        return self._digests[0]

    @property
    def calls(self) -> frozenset[str] | None:
        """The recipients that the reply may call: those that are offered and that the choice allows; None: any."""
        if self.any_call and self.tool_choice.mode != "none":
            return None
        return frozenset(filter(self.tool_choice.allows, recipients_of(self.conversation.offered)))

    @property
    def one_call(self) -> bool:
        """The reply ends at its first call."""
        return self.tool_choice.once or not self.parallel_tool_calls

    @property
    def stated(self) -> SamplingDefaults:
        """The settings that the request itself states."""
        return SamplingDefaults(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            max_tokens=self.max_tokens,
        )

    @property
    def of_ids(self) -> Iterator[str]:
        """The fields that are set of those that show ids of prompts and replies."""
        if self.return_token_ids:
            yield "return_token_ids"
        if self.prompt_logprobs is not None:
            yield "prompt_logprobs"

    @property
    def chosen(self) -> bool:
        """A call is required, or only some tools are allowed."""
        return self.tool_choice.mode == "required" or bool(self.tool_choice.names)

    @property
    def formatted(self) -> bool:
        """The answer must have a form."""
        format = self.conversation.response_format
        return format is not None and format.kind != "text"

    @property
    def requires_grammar(self) -> bool:
        """Something is requested that only a grammar can promise."""
        return self.chosen or self.formatted or any(tool.strict for tool in self.conversation.callable)

    @property
    def called_in_any_form(self) -> tuple[ToolSpec, ...]:
        """The tools whose calls may be read in any form; none where the answer has a form.

        A strict tool is called in the trained form alone, and who asks for an example of a call gets one to read.
        """
        tools = self.conversation.callable
        if any(tool.strict for tool in tools) or self.raw is not None or self.formatted:
            return ()
        messages = self.conversation.messages
        asked = messages[-1].text if messages and messages[-1].role is Role.USER else ""
        if self.tool_choice.mode == "none" or _ASKS_FOR_AN_EXAMPLE.search(asked[-_MOST:]):
            return ()
        return tuple(tool for tool in tools if self.tool_choice.allows(tool.recipient))
