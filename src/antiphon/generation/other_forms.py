"""Which calls are read in other forms than the one that a model was trained on."""

from __future__ import annotations

import re

from antiphon.conversation import Role, ToolSpec

from .model import Model
from .request import TurnRequest

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


def called_in_any_form(model: Model, request: TurnRequest) -> tuple[ToolSpec, ...]:
    """The tools whose calls are read in any form; none where only the trained form counts, or an answer has a form.

    A strict tool is called in the trained form alone, and who asks for an example of a call gets one to read.
    """
    tools = request.conversation.tools
    if model.calls == "trained" or any(tool.strict for tool in tools):
        return ()
    if request.raw is not None or request.formatted or request.tool_choice.mode == "none":
        return ()
    if _asks_for_an_example(request):
        return ()
    return tuple(tool for tool in tools if request.tool_choice.allows(tool.recipient))


def _asks_for_an_example(request: TurnRequest) -> bool:
    """Whether the last question is for what a call looks like."""
    messages = request.conversation.messages
    asked = messages[-1] if messages and messages[-1].role is Role.USER else None
    return asked is not None and _ASKS_FOR_AN_EXAMPLE.search(asked.text[-_MOST:]) is not None
