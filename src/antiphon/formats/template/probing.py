"""A compiled template as what `describe` asks: it writes small conversations in bounded work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.errors import TemplateError

from .capabilities import REASONING_NAMES, TemplateCapabilities
from .jinja_values import SOME_DAY, render_variables
from .sandbox import CompiledTemplate

_STEPS = 20_000


class TemplateProbe:
    """Keeps `Render`. A template that once exceeds its work is not asked again."""

    def __init__(
        self, template: CompiledTemplate, special_tokens: Mapping[str, str], takes: TemplateCapabilities | None = None
    ) -> None:
        self._template = template
        self._special = dict(special_tokens)
        self._takes = takes or TemplateCapabilities()
        self._exhausted = False

    def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]],
        kwargs: Mapping[str, Any],
        generation: bool,
    ) -> str | None:
        written = [self._message(message) for message in messages]
        offered = [dict(tool) for tool in tools]
        variables = render_variables(
            self._special, written, offered, self._takes, opens_reply=generation, today=SOME_DAY
        )
        try:
            return None if self._exhausted else self._template.render({**kwargs, **variables}, steps=_STEPS)
        except TemplateError as error:
            self._exhausted = error.code == "template_limit"
            return None

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message as this template takes it: reasoning under its names, content as parts where it wants them."""
        unread = set(REASONING_NAMES) - set(self._takes.reasoning_names)
        found = {key: value for key, value in message.items() if key not in unread}
        if self._takes.content_as_parts and isinstance(found["content"], str):
            found["content"] = [{"type": "text", "text": found["content"]}]
        return found
