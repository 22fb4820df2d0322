"""What a Jinja template is given: plain JSON values, their texts protected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from antiphon.conversation import TextPart, ToolSpec
from antiphon.errors import TemplateError

from .budget import Budget, Exhausted
from .capabilities import TemplateCapabilities
from .chat import ChatCall, ChatMessage
from .methods import Function

_LONGEST_PATTERN = 256
_LONGEST_DATE = 16_384
SOME_DAY = date(2000, 1, 1)
"""The date of conversations that a template is tried with."""


def strftime_for(today: date | None) -> Function:
    """The date is handed in with the conversation's settings; a template that needs one without fails."""

    def strftime_now(pattern: str) -> str:
        if today is None:
            raise TemplateError("the chat template asks for the date, and the settings have none", code="no_date")
        return today.strftime(pattern)

    return Function(strftime_now, _dated)


def _dated(budget: Budget, pattern: str) -> None:
    """C's function tries buffers that are ever longer, up to 256 times the pattern."""
    budget.chars(_LONGEST_DATE)
    if len(pattern) > _LONGEST_PATTERN:
        raise Exhausted(f"the chat template writes a date by more than {_LONGEST_PATTERN} characters")


def tool_value(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    function["parameters"] = tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def message_value(
    message: ChatMessage, takes: TemplateCapabilities, protect: Callable[[str], str], *, tail: str = ""
) -> dict[str, Any]:
    """The message as templates of the Hugging Face kind take it: plain JSON values, content never null.

    Reasoning stands under every name that templates read it under; which of it is written is the template's decision.
    ``tail`` is put behind the text that the model is to continue. Raises `TemplateError` for arguments that are no JSON
    where the template wants an object.
    """
    reasons = bool(message.reasoning and not message.content)
    content = protect(message.content) + ("" if reasons else tail)
    entry: dict[str, Any] = {"role": message.role, "content": content}
    reasoning = protect(message.reasoning) + (tail if reasons else "")
    if takes.content_as_parts:
        entry["content"] = [{"type": "text", "text": content}] if content else []
    if takes.reasoning_in_parts and message.reasoning:
        answer = [{"type": "text", "text": content}] if content else []
        entry["content"] = [{"type": "thinking", "thinking": reasoning}, *answer]
    if message.parts:
        entry["content"] = list(_parts(message, takes, protect))
    if message.name:
        entry["name"] = protect(message.name.removeprefix("functions.") if message.role == "tool" else message.name)
    if message.reasoning:
        entry |= dict.fromkeys(takes.reasoning_names, reasoning)
    if message.call_id is not None:
        entry["tool_call_id"] = protect(message.call_id)
    if message.calls:
        entry["tool_calls"] = [_call_value(call, takes, protect) for call in message.calls]
    return entry


def _parts(
    message: ChatMessage, takes: TemplateCapabilities, protect: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """Texts and images in their order, behind the text that was put before them. Where an image is, is not told."""
    texts = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    if before := message.content.removesuffix(texts):
        yield {"type": "text", "text": protect(before)}
    for part in message.parts:
        yield {"type": "text", "text": protect(part.text)} if isinstance(part, TextPart) else {"type": takes.image_type}


def _call_value(call: ChatCall, takes: TemplateCapabilities, protect: Callable[[str], str]) -> dict[str, Any]:
    arguments = protect(call.arguments) if takes.arguments_as_text else _object(call.arguments, protect)
    function = {"name": protect(call.name), "arguments": arguments}
    return {"id": protect(call.call_id or ""), "type": "function", "function": function}


def _object(arguments: str, protect: Callable[[str], str]) -> Any:
    try:
        return protected(json.loads(arguments or "{}"), protect)
    except (ValueError, RecursionError) as error:
        raise TemplateError(
            f"this model's template needs the arguments of an earlier call as JSON, and they are none: {error}",
            code="invalid_arguments",
        ) from None


def chat_texts(chat: Sequence[ChatMessage]) -> Iterator[str]:
    for message in chat:
        yield message.content
        yield from (part.text for part in message.parts if isinstance(part, TextPart))
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


def render_variables(
    special_tokens: Mapping[str, str],
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    takes: TemplateCapabilities,
    *,
    opens_reply: bool,
    today: date | None,
    documents: object = None,
) -> dict[str, Any]:
    """What every rendering of a model's template is given; without tools none, or a list where it needs one."""
    return {
        **special_tokens,
        "messages": list(messages),
        "tools": list(tools) or ([] if takes.tools_as_list else None),
        "documents": documents,
        "add_generation_prompt": opens_reply,
        "strftime_now": strftime_for(today),
    }
