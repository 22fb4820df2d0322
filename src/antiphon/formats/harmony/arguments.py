"""The arguments of gpt-oss's chat template, which clients of other servers send, as Harmony's settings."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import ReasoningEffort, Settings
from antiphon.errors import RenderError

EFFORT, IDENTITY = "reasoning_effort", "model_identity"
ARGUMENTS = frozenset((EFFORT, IDENTITY))


def with_arguments(settings: Settings) -> Settings:
    """The settings, template arguments before what else the request says. Raises `RenderError` for a wrong value."""
    given = settings.template_kwargs
    effort, identity = given.get(EFFORT), given.get(IDENTITY)
    if effort is not None:
        if effort not in tuple(ReasoningEffort):
            raise _refused(EFFORT, f"is one of {', '.join(ReasoningEffort)}")
        settings = replace(settings, reasoning_effort=ReasoningEffort(effort))
    if identity is not None:
        if not isinstance(identity, str):
            raise _refused(IDENTITY, "is a text")
        settings = replace(settings, identity=identity)
    return settings


def _refused(name: str, kind: str) -> RenderError:
    return RenderError(f"the template argument {name} {kind}", code="bad_template_kwargs")
