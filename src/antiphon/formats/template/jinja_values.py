"""The values that a Jinja template is given: plain JSON, its texts protected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from itertools import takewhile, zip_longest
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import OpaquePart, TextPart
from antiphon.errors import TemplateError

from .budget import Budget, Exhausted
from .chat import ChatCall, ChatMessage
from .methods import Function

# What a chat template takes, and a conversation brought into a form that it takes.

DAYS = (date(2026, 1, 1), date(2024, 2, 2))
"""The dates of conversations that a template is tried with: some know the years of a table only."""

REASONING_NAMES = ("reasoning_content", "reasoning", "thinking", "thought")
"""The keys under which templates look for a message's reasoning. All are given at once; a template reads its own."""


class IdForm(StrEnum):
    """The ids of calls: as they are; nine letters or digits; or with the tool's name, which is written nowhere else."""

    ANY = "any"
    SHORT = "short"
    NAMED = "named"


class TemplateCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The forms of messages and tools that a template takes, by default those of `transformers`.

    ``arguments_as_text``: the arguments of an earlier call as the text that the model wrote, not as an object.
    ``tools_as_list``: an empty list where no tools are offered. ``content_as_parts``: texts as lists of parts.
    ``system``: a system message; else its text goes before the next user's. ``later_system``: system messages that are
    not the first; else their texts go into the first. ``parallel_calls``: several calls in one message; else each is a
    message, followed by its result. ``reasoning_in_parts``: reasoning as a part of the content, under no name.
    ``image_type``: the type of a part for which the template writes the place of an image; empty: it writes none.
    ``images_in_results``: in a tool's message too; else they are a user's, behind the results.
    ``day``: the first of `DAYS` on which it writes a question.
    """

    arguments_as_text: bool = False
    tools_as_list: bool = False
    content_as_parts: bool = False
    system: bool = True
    later_system: bool = True
    parallel_calls: bool = True
    ids: IdForm = IdForm.ANY
    reasoning_names: tuple[str, ...] = REASONING_NAMES
    reasoning_in_parts: bool = False
    image_type: str = ""
    images_in_results: bool = False
    day: date = DAYS[0]


def fitted(chat: Sequence[ChatMessage], takes: TemplateCapabilities) -> list[ChatMessage]:
    """The conversation as the template takes it. No text of a message is lost."""
    if not takes.system:
        chat = list(_system_as_user(chat))
    elif not takes.later_system:
        chat = _system_first(chat)
    if not takes.parallel_calls:
        chat = list(_single_calls(chat))
    if not takes.images_in_results:
        chat = list(_images_behind_results(chat))
    return list(chat) if takes.ids is IdForm.ANY else list(_with_ids(chat, takes.ids))


def _system_as_user(chat: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    texts: list[str] = []
    for message in chat:
        if message.role == "system":
            texts.append(message.content)
            continue
        if message.role == "user" and texts:
            message, texts = replace(message, content=_joined([*texts, message.content])), []
        yield message
    if texts:
        yield ChatMessage(role="user", content=_joined(texts))


def _system_first(chat: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    system = [message for message in chat if message.role == "system"]
    if not system or (len(system) == 1 and chat[0].role == "system"):
        return chat
    first = replace(system[0], content=_joined([message.content for message in system]))
    return [first, *(message for message in chat if message.role != "system")]


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _single_calls(chat: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Each call as a message of its own, followed by its results, as if the model had called one after the other."""
    at = 0
    while at < len(chat):
        message = chat[at]
        results = list(takewhile(lambda m: m.role == "tool", chat[at + 1 :])) if len(message.calls) > 1 else []
        yield from _call_by_call(message, results) if len(message.calls) > 1 else (message,)
        at += 1 + len(results)


def _call_by_call(message: ChatMessage, results: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    left = list(results)
    for i, call in enumerate(message.calls):
        yield replace(message, calls=(call,)) if i == 0 else ChatMessage(role="assistant", calls=(call,))
        mine = [result for result in left if result.call_id == call.call_id][:1]
        left = [result for result in left if result not in mine]
        yield from mine
    yield from left


def _images_behind_results(chat: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """The images of results as a message of the user's, behind all of them."""
    waiting: list[OpaquePart] = []
    for message, after in zip_longest(chat, chat[1:]):
        if message.role == "tool" and message.parts:
            waiting += (part for part in message.parts if isinstance(part, OpaquePart))
            message = replace(message, parts=())
        yield message
        if waiting and (after is None or after.role != "tool"):
            yield ChatMessage(role="user", parts=tuple(waiting))
            waiting = []


def _with_ids(chat: Sequence[ChatMessage], form: IdForm) -> Iterator[ChatMessage]:
    """The ids of calls in the form, the same for a call and its result; one that lacks an id gets it by order."""
    renamed: dict[str, str] = {}
    unanswered: list[str] = []
    count = 0
    for message in chat:
        ids = [call.call_id or "" for call in message.calls]
        for i, call in enumerate(message.calls):
            if form is IdForm.SHORT:
                ids[i] = _short_id(ids[i] or f"call {count + i}")
            elif not ids[i] or call.name not in ids[i]:
                ids[i] = f"functions.{call.name}:{count + i}"
        count += len(ids)
        unanswered += ids
        if message.calls:
            renamed.update((call.call_id or id, id) for call, id in zip(message.calls, ids, strict=True))
            calls = [replace(call, call_id=id) for call, id in zip(message.calls, ids, strict=True)]
            message = replace(message, calls=tuple(calls))
        elif message.role == "tool":
            id = message.call_id or next(iter(unanswered), f"call {count}")
            message = replace(message, call_id=renamed.get(id) or (_short_id(id) if form is IdForm.SHORT else id))
            unanswered = [id for id in unanswered if id != message.call_id]
        yield message


def _short_id(id: str) -> str:
    fits = len(id) == 9 and id.isascii() and id.isalnum()
    return id if fits else hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


_LONGEST_PATTERN = 256
_LONGEST_DATE = 16_384


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


def _call_value(call: ChatCall, takes: TemplateCapabilities, protect: Callable[[str], str]) -> dict[str, Any]:
    arguments = protect(call.arguments) if takes.arguments_as_text else _object(call.arguments, protect)
    function = {"name": protect(call.name), "arguments": arguments}
    return {"id": protect(call.call_id or ""), "type": "function", "function": function}


def _parts(
    message: ChatMessage, takes: TemplateCapabilities, protect: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """Texts and images in their order, behind the text that was put before them. Of an image only its type is told."""
    texts = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    if before := message.content.removesuffix(texts):
        yield {"type": "text", "text": protect(before)}
    for part in message.parts:
        yield {"type": "text", "text": protect(part.text)} if isinstance(part, TextPart) else {"type": takes.image_type}


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
    """The variables of every rendering of a model's template; without tools none, or a list where it needs one."""
    return {
        **special_tokens,
        "messages": list(messages),
        "tools": list(tools) or ([] if takes.tools_as_list else None),
        "documents": documents,
        "add_generation_prompt": opens_reply,
        "strftime_now": strftime_for(today),
    }
