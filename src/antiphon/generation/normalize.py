"""A request as its model's template knows it: a budget of thought is an argument too, and idle arguments are none."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import ReasoningEffort, Settings
from antiphon.errors import Position, UnsupportedError

from .model import Model
from .request import TurnRequest

EFFORTS = ((1, ReasoningEffort.NONE), (2048, ReasoningEffort.LOW), (8192, ReasoningEffort.MEDIUM))
"""The effort that a budget below so many tokens is to a model whose thoughts nothing can bound; high beyond them."""


def normalized(model: Model, request: TurnRequest) -> TurnRequest:
    """The request with its settings as the template takes them.

    Raises `UnsupportedError` for a budget of thought that nothing can hold.
    """
    settings = request.conversation.settings
    taken = _without_idle_arguments(model, request, _with_budget(model, request, settings))
    return (
        request if taken == settings else replace(request, conversation=replace(request.conversation, settings=taken))
    )


def _with_budget(model: Model, request: TurnRequest, settings: Settings) -> Settings:
    """Without a thought, thinking is off for the template too; without a grammar, a budget is an effort."""
    budget = request.thinking_token_budget
    if budget is None or budget < 0:
        return settings
    arguments, effort = settings.template_kwargs, settings.reasoning_effort
    bounded = model.reply_compiler is not None and not request.ignore_eos
    named = effort or arguments.get("reasoning_effort")
    if not bounded and named not in (None, ReasoningEffort.NONE):
        raise UnsupportedError(
            "thinking_token_budget cannot be held here: no grammar bounds the thought, and its effort is named",
            position=Position(path="thinking_token_budget"),
            hint="Send one of thinking_token_budget and reasoning_effort.",
        )
    if budget == 0:
        arguments = {"enable_thinking": False, **arguments}
    if named is None and (budget == 0 or not bounded):
        effort = next((effort for below, effort in EFFORTS if budget < below), ReasoningEffort.HIGH)
    return replace(settings, reasoning_effort=effort, template_kwargs=arguments)


def _without_idle_arguments(model: Model, request: TurnRequest, settings: Settings) -> Settings:
    """The settings without arguments that the template does not know and that ask for nothing, as false and null do.

    What is to be off is not there at all. Many clients send ``enable_thinking: false`` to every model.
    """
    known = (request.raw or model.format).arguments
    given = settings.template_kwargs
    kept = {key: value for key, value in given.items() if key in known or not (value is None or value is False)}
    return settings if len(kept) == len(given) else replace(settings, template_kwargs=kept)
