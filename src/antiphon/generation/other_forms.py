"""Which calls are read in other forms than the one that a model was trained on."""

from __future__ import annotations

from antiphon.conversation import ToolSpec

from .model import Model
from .request import TurnRequest


def called_in_any_form(model: Model, request: TurnRequest) -> tuple[ToolSpec, ...]:
    """The tools whose calls are read in any form; none where only the trained form counts, or an answer has a form.

    A strict tool is called in the trained form alone.
    """
    tools = request.conversation.tools
    if model.calls == "trained" or any(tool.strict for tool in tools):
        return ()
    if request.raw is not None or request.formatted or request.tool_choice.mode == "none":
        return ()
    return tuple(tool for tool in tools if request.tool_choice.allows(tool.recipient))
