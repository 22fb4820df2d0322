"""What a Jinja template is given: plain JSON values, their texts protected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from antiphon.conversation import ToolSpec
from antiphon.errors import TemplateError

from .chat import ChatMessage


def strftime_for(today: date | None) -> Callable[[str], str]:
    """The date is handed in with the conversation's settings; a template that needs one without fails."""

    def strftime_now(pattern: str) -> str:
        if today is None:
            raise TemplateError("the chat template asks for the date, and the settings have none", code="no_date")
        return today.strftime(pattern)

    return strftime_now


def tool_value(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    function["parameters"] = tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def chat_texts(chat: Sequence[ChatMessage]) -> Iterator[str]:
    for message in chat:
        yield message.content
        yield message.reasoning
        yield message.name or ""
        yield message.call_id or ""
        for call in message.calls:
            yield call.name
            yield call.arguments
            yield call.call_id or ""


def texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from texts_of(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_of(inner)


def protected(value: Any, protect: Callable[[str], str]) -> Any:
    """The same JSON value with all its texts protected, of plain types, so that nothing richer enters a template."""
    if isinstance(value, str):
        return protect(value)
    if isinstance(value, Mapping):
        return {protect(str(key)): protected(inner, protect) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [protected(inner, protect) for inner in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise TemplateError(f"a {type(value).__name__} is no JSON value", code="bad_template_kwargs")
