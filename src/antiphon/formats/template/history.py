"""Histories that a template refuses, in the nearest form that it writes: a table of repairs.

A model writes what it likes, and clients send back what they were given: arguments that are no JSON, a call without a
result, two answers in a row. What a template writes as it stands is never changed. Where it raises, the repairs are
tried in order, each alone and then one upon the other, and the prompt names those that it took.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from antiphon.conversation import Incident
from antiphon.conversation.calls import fits_template
from antiphon.errors import RenderError, TemplateError
from antiphon.formats.format import MendedPrompt
from antiphon.tokens import Piece

from .chat import ChatCall, ChatMessage

TOOL_MARK = "Tool result"
CALL_MARK = "Tool call"
"""Resolution X-07: what they are called in a template without tools: text of the user's, and of the assistant's."""
SLOT = "probeslot"
"""Name and value of an argument: where a template writes it, it would write any arguments."""
_REFUSALS = frozenset({"invalid_arguments", "template_failed", "template_refused", "roles_not_in_turn"})


class GivenHistory(NamedTuple):
    """A conversation for a template. ``placed``: texts, by the words that hold their place in arguments of calls."""

    chat: Sequence[ChatMessage]
    placed: Mapping[str, str] = {}


def mended(
    chat: Sequence[ChatMessage], write: Callable[[GivenHistory], Iterable[Piece]], *, objects: bool = True
) -> Iterator[Piece]:
    """The pieces that ``write`` makes of the conversation; a `MendedPrompt` where it refuses that as it stands.

    ``objects``: it may want arguments as objects, and writes what is placed in them. Raises `RenderError` with the
    first refusal where no repair helps.
    """
    refusal: RenderError | None = None
    lossy: Iterator[Piece] | None = None
    for history, incidents in _attempts(GivenHistory(tuple(chat)), _ORDER if objects else _OF_TEXTS):
        try:
            pieces = list(write(history))
        except TemplateError as error:
            refusal = refusal or _as_render_error(error)
            if error.code not in _REFUSALS and not _may_be_too_deep(error, history):
                break
            continue
        prompt = MendedPrompt(pieces, incidents, refusal) if incidents else iter(pieces)
        if not _leaves_out(history, pieces, write):
            return prompt
        lossy = lossy or prompt
    if lossy is None and refusal is not None:
        raise refusal
    return lossy or iter(())


def _as_render_error(error: TemplateError) -> RenderError:
    line = error.position.line if error.position is not None else None
    where = f" (line {line} of the template)" if line is not None else ""
    return RenderError(error.message + where, code=error.code, hint=error.hint)


def _may_be_too_deep(error: TemplateError, history: GivenHistory) -> bool:
    """Whether what was too much may be arguments that are nested too deeply."""
    calls = [call for message in history.chat for call in message.calls]
    return error.code == "template_limit" and not all(fits_template(call.arguments) for call in calls)


def _leaves_out(history: GivenHistory, pieces: list[Piece], write: Callable[[GivenHistory], Iterable[Piece]]) -> bool:
    """Whether the template writes the same without a result that is nobody's, or for other arguments or none."""
    orphans = _orphans_as_text(history).chat
    without = [tuple(m for m, other in zip(history.chat, orphans, strict=True) if m is other)]
    if any(call.arguments.lstrip()[:1] not in ("", "{") for message in history.chat for call in message.calls):
        without += [_with_calls(history.chat, change) for change in (_without_arguments, _with_others)]
    for chat in without:
        with suppress(TemplateError):
            if chat != history.chat and list(write(history._replace(chat=chat))) == pieces:
                return True
    return False


def _attempts(given: GivenHistory, order: Sequence[Sequence[Repair]]) -> Iterator[tuple[GivenHistory, list[Incident]]]:
    """Yields the history as it is, and as repairs make it, with the incidents of those that changed something in it."""
    tried: list[GivenHistory] = []
    for repairs in order:
        history, taken = given, list[Incident]()
        for repair in repairs:
            before, history = history, repair.change(history)
            taken += [repair.incident] if history != before else []
        if history not in tried:
            tried.append(history)
            yield history, taken


# The repairs. Each takes a history and gives another, or the same where it has nothing to do.


def _placed_arguments(history: GivenHistory) -> GivenHistory:
    """Words in place of arguments that are no object, for the template; the prompt has the texts at their places."""
    texts = "\0".join(text for m in history.chat for call in m.calls for text in (m.content, call.name, call.arguments))
    stem = next(stem for stem in (f"written{n}w" for n in count()) if stem not in texts)
    placed: dict[str, str] = {}

    def held(call: ChatCall) -> ChatCall:
        word = f"{stem}{len(placed)}w"
        placed[word] = call.arguments
        return replace(call, arguments=json.dumps({word: word}))

    return GivenHistory(_with_calls(history.chat, held), placed)


def with_arguments(text: str, slot: str, placed: Mapping[str, str], protect: Callable[[str], str]) -> str:
    """The prompt with what is placed where its words stand, as ``slot`` has them. Raises `TemplateError`.

    ``slot`` is what the template writes for an argument called `SLOT`, whose value is that too; empty: that is unknown.
    """
    before, *behind = re.escape(slot).split(SLOT)
    left = dict(placed)
    pattern = before + r"(\w+)" + r"\1".join(behind)
    text = re.sub(pattern, lambda found: protect(left.pop(found[1])) if found[1] in left else found[0], text)
    if not slot or left:
        raise TemplateError("the chat template writes arguments otherwise", code="invalid_arguments")
    return text


def _arguments_as_text(history: GivenHistory) -> GivenHistory:
    """Nothing in place of such arguments; they stand in the text before the call."""
    chat = []
    for message, bare in zip(history.chat, _with_calls(history.chat, _without_arguments), strict=True):
        lost = [was.arguments for was, now in zip(message.calls, bare.calls, strict=True) if was is not now]
        chat.append(replace(bare, content=joined_texts([bare.content, *lost])) if lost else bare)
    return GivenHistory(tuple(chat))


def _without_arguments(call: ChatCall) -> ChatCall:
    return replace(call, arguments="{}")


def _with_others(call: ChatCall) -> ChatCall:
    return replace(call, arguments="true" if call.arguments.strip() == "null" else "null")


def _with_calls(chat: Sequence[ChatMessage], change: Callable[[ChatCall], ChatCall]) -> tuple[ChatMessage, ...]:
    """The conversation with each call changed whose arguments are no object."""
    return tuple(
        replace(message, calls=tuple(call if fits_template(call.arguments) else change(call) for call in message.calls))
        if message.calls
        else message
        for message in chat
    )


def _without_empty(history: GivenHistory) -> GivenHistory:
    """No replies without a text or a call."""
    return history._replace(chat=tuple(m for m in history.chat if m.open or not _is_empty(m)))


def _is_empty(message: ChatMessage) -> bool:
    return message.role == "assistant" and not message.calls and not message.content.strip()


def _orphans_as_text(history: GivenHistory) -> GivenHistory:
    """Results that answer no call before them as the user's text."""
    chat: list[ChatMessage] = []
    waiting: list[str | None] = []
    for message in history.chat:
        if message.role != "tool":
            waiting = [call.call_id for call in message.calls]
        elif message.call_id in waiting:
            waiting.remove(message.call_id)
        else:
            message = result_as_text(message)
        chat.append(message)
    return history._replace(chat=tuple(chat))


def _calls_as_text(history: GivenHistory) -> GivenHistory:
    """Calls as the assistant's text, and so their results as the user's."""
    chat = tuple(calls_as_text(message) if message.calls else message for message in history.chat)
    return _orphans_as_text(history._replace(chat=chat))


def _joined(history: GivenHistory) -> GivenHistory:
    """Texts of one role that follow each other as one."""
    chat: list[ChatMessage] = []
    for message in history.chat:
        last = chat[-1] if chat else None
        if (
            last
            and last.role == message.role in ("user", "assistant")
            and not (last.calls or last.parts or message.parts)
        ):
            reasoning = joined_texts([last.reasoning, message.reasoning])
            chat[-1] = replace(message, content=joined_texts([last.content, message.content]), reasoning=reasoning)
        else:
            chat.append(message)
    return history._replace(chat=tuple(chat))


def _filled(history: GivenHistory) -> GivenHistory:
    """An empty text of the user before what the model said first, and of the model between a result and a question."""
    chat: list[ChatMessage] = []
    for message in history.chat:
        before = chat[-1].role if chat else "system"
        if message.role in ("assistant", "tool") and before == "system":
            chat.append(ChatMessage(role="user"))
        elif message.role == "user" and before == "tool":
            chat.append(ChatMessage(role="assistant"))
        chat.append(message)
    return history._replace(chat=tuple(chat))


def calls_as_text(message: ChatMessage) -> ChatMessage:
    """The message, with any calls as text."""
    calls = [f"{CALL_MARK} ({call.name}): {call.arguments}" for call in message.calls]
    return replace(message, content="\n".join([*([message.content] if message.content else []), *calls]), calls=())


def result_as_text(message: ChatMessage) -> ChatMessage:
    """A tool's result as the user's text."""
    name = f" ({message.name})" if message.name else ""
    return ChatMessage(role="user", content=f"{TOOL_MARK}{name}:\n{message.content}")


def joined_texts(texts: Sequence[str]) -> str:
    """Texts as paragraphs; empty ones are none."""
    return "\n\n".join(text for text in texts if text)


class Repair(NamedTuple):
    """A change of a history, and the incident that tells of it."""

    incident: Incident
    change: Callable[[GivenHistory], GivenHistory]


_PLACED = Repair(Incident("history_arguments", 0), _placed_arguments)
_ARGUMENTS = Repair(Incident("history_arguments_as_text", 0), _arguments_as_text)
_CALLS = Repair(Incident("history_calls_as_text", 0), _calls_as_text)
_TURNS = (
    Repair(Incident("history_empty", 0), _without_empty),
    Repair(Incident("history_results_as_text", 0), _orphans_as_text),
    Repair(Incident("history_joined", 0), _joined),
    Repair(Incident("history_filled", 0), _filled),
)
_ALONE = tuple((repair,) for repair in _TURNS)
_OF_TEXTS = ((), *_ALONE, _TURNS, (_CALLS, *_TURNS))
_ORDER = ((), (_PLACED,), (_ARGUMENTS,), *_ALONE, (_PLACED, *_TURNS), (_ARGUMENTS, *_TURNS), (_CALLS, *_TURNS))
"""The repairs that are tried together, the smallest first."""
