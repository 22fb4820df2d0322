"""Whether the next turn's prompt begins with the former one, and with what it stops doing so.

An engine has the tokens of a former prompt and its reply in its cache; from the first that changed it must compute
them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

import msgspec

from antiphon.conversation import Channel, Conversation, Message, Role, Settings, ToolSpec
from antiphon.conversation.calls import make_call
from antiphon.errors import AntiphonError
from antiphon.formats.replies import ReplyDescription
from antiphon.structs import ready
from antiphon.tokens import Control, Piece, Tokenizer, encode_pieces, spell

from .jinja import JinjaCache, JinjaFormat, TemplateParts, jinja_format
from .jinja_values import DAYS

Cause = Literal["reasoning", "tools", "date", "argument", "history"]
_SHOWN = 48
_TOOL = ToolSpec("zqweather", "The weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}})
_REASON, _CALL_ID = "zqreason", "zqcall001"
_ASK, _AGAIN = (Message(role=Role.USER, text=text) for text in ("What is the weather in Rome?", "And tomorrow?"))
_THOUGHT = Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS, text=f"{_REASON} about it.")
_ANSWER = Message(role=Role.ASSISTANT, channel=Channel.FINAL, text="It is sunny.")
_CALL = make_call("functions.zqweather", '{"city": "Rome"}', _CALL_ID)
_RESULT = Message(role=Role.TOOL, name="functions.zqweather", text="sunny", call_id=_CALL_ID)
_NEXT = (_ASK, _THOUGHT, _ANSWER, _AGAIN)

Render = Callable[[Conversation, bool], list[Piece]]
"""The pieces of a conversation; with the start of a reply, or without."""


class PromptChange(msgspec.Struct, frozen=True, kw_only=True):
    """From a prompt to the next: ``turn`` says which.

    ``at``: the character of the former prompt at which the next differs; None where it begins with all of the former.
    ``token``: the same in tokens, where a vocabulary was given. ``former`` and ``next``: how they go on from there.
    ``refused``: what the template refused, in its own words. ``prompts``: the pieces of both, where they differ.
    """

    turn: str
    at: int | None = None
    token: int | None = None
    cause: Cause | None = None
    former: str = ""
    next: str = ""
    refused: str = ""
    prompts: tuple[Sequence[Piece], Sequence[Piece]] | None = None

    @property
    def stable(self) -> bool:
        return self.at is None and not self.refused


class _Step(msgspec.Struct, frozen=True):
    turn: str
    former: tuple[Conversation, bool]
    next: tuple[Conversation, bool]
    cause: Cause | None = None


def prompt_changes(
    render: Render, replies: ReplyDescription, arguments: Sequence[str] = (), tokenizer: Tokenizer | None = None
) -> tuple[PromptChange, ...]:
    """Finds how a prompt changes in the next turn, on another day, with tools, and with each of the ``arguments``."""
    return tuple(_change(step, render, replies, tokenizer) for step in (*_turns(), *_others(arguments)))


def sample_prompts() -> Iterator[tuple[str, Conversation]]:
    """Conversations by name, whose prompts show how a template writes them."""
    yield "question", _talk(_ASK)
    yield "system", _talk(Message(role=Role.SYSTEM, text="Be brief."), _ASK)
    yield "tools", _talk(_ASK, tools=True)
    yield "next_turn", _talk(*_NEXT)
    yield "tool_result", _talk(_ASK, _THOUGHT, _CALL, _RESULT, tools=True)


def _turns() -> Iterator[_Step]:
    """From turn to turn. A reply that is not the prompt's last is compared as the template writes it."""
    called = _ASK, _THOUGHT, _CALL
    answered = _with_tools(*called, _RESULT, _ANSWER, _AGAIN)
    yield _Step("answered", (_talk(_ASK), True), (_talk(*_NEXT), True))
    yield _Step("answered, tools offered", _with_tools(_ASK), _with_tools(*_NEXT))
    yield _Step("reasoning of the turn before", (_talk(_ASK, _THOUGHT, _ANSWER), False), (_talk(*_NEXT), True))
    yield _Step("a call's result", (_talk(*called, tools=True), False), _with_tools(*called, _RESULT))
    yield _Step("after a call was answered", _with_tools(*called, _RESULT), answered)


def _others(arguments: Sequence[str]) -> Iterator[_Step]:
    """Differences between two requests with the same messages."""
    turn = _talk(_ASK)
    other_day = replace(turn, settings=replace(turn.settings, current_date=DAYS[1]))
    yield _Step("another day", (turn, True), (other_day, True), "date")
    yield _Step("tools offered", (turn, True), _with_tools(_ASK), "tools")
    for name in arguments:
        on, off = (_given(turn, name, value=value) for value in (True, False))
        yield _Step(f"{name} true or false", (on, True), (off, True), "argument")


def _given(talk: Conversation, name: str, *, value: bool) -> Conversation:
    return replace(talk, settings=replace(talk.settings, template_kwargs={name: value}))


def _talk(*messages: Message, tools: bool = False) -> Conversation:
    return Conversation(messages, tools=(_TOOL,) if tools else (), settings=Settings(current_date=DAYS[0]))


def _with_tools(*messages: Message) -> tuple[Conversation, bool]:
    return _talk(*messages, tools=True), True


def _change(step: _Step, render: Render, replies: ReplyDescription, tokenizer: Tokenizer | None) -> PromptChange:
    try:
        pieces = render(*step.former), render(*step.next)
    except AntiphonError as error:
        return PromptChange(turn=step.turn, refused=error.message)
    former, following = spell(pieces[0]), spell(pieces[1])
    at = _common(former, following)
    if at == len(former) and (step.cause is None or at == len(following)):
        return PromptChange(turn=step.turn)
    return PromptChange(
        turn=step.turn,
        at=at,
        token=common_tokens(pieces, tokenizer) if tokenizer is not None else None,
        cause=step.cause or _cause(former, following, at, replies),
        former=former[at : at + _SHOWN],
        next=following[at : at + _SHOWN],
        prompts=pieces,
    )


def common_tokens(pieces: Sequence[Sequence[Piece]], tokenizer: Tokenizer) -> int:
    """How many tokens two prompts begin with alike."""
    former, following = (encode_pieces(each, tokenizer) for each in pieces)
    return _common(former, following)


def _common(first: Sequence[object], second: Sequence[object]) -> int:
    """How many of both are the same from the beginning on."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return sum(1 for _ in same)


def _cause(former: str, following: str, at: int, replies: ReplyDescription) -> Cause:
    """The thing where the prompts part: reasoning or its mark, a tool, or else something of the messages."""
    around = former[max(0, at - _SHOWN) : at + _SHOWN]
    marks = [replies.reasoning.open.strip(), replies.reasoning.close.strip()] if replies.reasoning else []
    if any(mark and mark in around for mark in (*marks, _REASON)):
        return "reasoning"
    return "tools" if _TOOL.name in former[at:] + following[at : at + _SHOWN] else "history"


# A template's format made of its parts, and all that a server does with a template before it is trusted.


def made_of(parts: TemplateParts, cache: JinjaCache | None = None) -> JinjaFormat:
    """The format of these parts. Raises `TemplateError`."""
    return jinja_format(
        parts.source,
        list(map(Control, parts.controls)),
        parts.special_tokens,
        name=parts.name,
        replies=parts.replies,
        response_template=parts.response_template,
        cache=cache,
        teaches=parts.teaches,
    )


def work(piece: bytes) -> bytes:
    """Makes the format of parts, and renders some prompts with it, in a process of its own.

    Raises `TemplateError` where the source is no template; what it refuses to write is its own affair.
    """
    format = made_of(msgspec.json.decode(piece, type=ready(TemplateParts)))
    for _, conversation in sample_prompts():
        try:
            list(format.render(conversation))
        except AntiphonError:
            continue
    return b""
