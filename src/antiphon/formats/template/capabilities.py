"""What a chat template takes, and a conversation brought into a form that it takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from .chat import ChatCall, ChatMessage

REASONING_NAMES = ("reasoning_content", "reasoning", "thinking", "thought")
"""The keys under which templates look for a message's reasoning. All are given at once; a template reads its own."""


class IdForm(StrEnum):
    """The ids of calls: as they are; nine letters or digits; or with the tool's name, which is written nowhere else."""

    ANY = "any"
    SHORT = "short"
    NAMED = "named"


class TemplateCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a template takes. The defaults are what `transformers` hands over; `find_capabilities` finds the rest.

    ``arguments_as_text``: the arguments of an earlier call as the text that the model wrote, not as an object.
    ``tools_as_list``: an empty list where no tools are offered. ``content_as_parts``: texts as lists of parts.
    ``system``: a system message; else its text goes before the next user's. ``later_system``: system messages that are
    not the first; else their texts go into the first. ``parallel_calls``: several calls in one message; else each is a
    message, followed by its result. ``reasoning_in_parts``: reasoning as a part of the content, under no name.
    ``image_type``: the type of a part for which the template writes the place of an image; empty: it writes none.
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


def fitted(chat: Sequence[ChatMessage], takes: TemplateCapabilities) -> list[ChatMessage]:
    """The conversation as the template takes it. No text of a message is lost."""
    if not takes.system:
        chat = list(_system_as_user(chat))
    elif not takes.later_system:
        chat = _system_first(chat)
    if not takes.parallel_calls:
        chat = list(_single_calls(chat))
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


def _with_ids(chat: Sequence[ChatMessage], form: IdForm) -> Iterator[ChatMessage]:
    """The ids of calls in the form, the same for a call and its result; one that lacks an id gets it by order."""
    renamed: dict[str, str] = {}
    unanswered: list[str] = []
    count = 0
    for message in chat:
        ids = [_id(call, count + i, form) for i, call in enumerate(message.calls)]
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


def _id(call: ChatCall, number: int, form: IdForm) -> str:
    if form is IdForm.SHORT:
        return _short_id(call.call_id or f"call {number}")
    return call.call_id if call.call_id and call.name in call.call_id else f"functions.{call.name}:{number}"


def _short_id(id: str) -> str:
    fits = len(id) == 9 and id.isascii() and id.isalnum()
    return id if fits else hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
