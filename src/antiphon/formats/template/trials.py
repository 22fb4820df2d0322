"""Finds out what a chat template takes by rendering small conversations with it, once, when its format is made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from antiphon.conversation import OpaquePart, TextPart, ToolSpec, definition
from antiphon.errors import TemplateError

from .chat import ChatCall, ChatMessage
from .history import SLOT
from .jinja_values import (
    DAYS,
    REASONING_NAMES,
    IdForm,
    TemplateCapabilities,
    fitted,
    message_value,
    render_variables,
)
from .sandbox import CompiledTemplate

# A compiled template as what `describe` asks: it writes small conversations in bounded work.

_PROBE_STEPS = 20_000


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
            self._special, written, offered, self._takes, opens_reply=generation, today=self._takes.day
        )
        try:
            return None if self._exhausted else self._template.render({**kwargs, **variables}, steps=_PROBE_STEPS)
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


_STEPS = 100_000
_SIMPLE = {"probekey": "probevalue"}
_RICH = {"probekey": "probevalue", "b": [1, 2.5, True, None, {"c": "é<&'\"\n\\"}], "d": {}}
_ID = "abcdefghi"
_PRINTED_PART = re.compile(r"""["']type["']""")
_PRINTED = re.compile(r"""["']type["']: ?["']thinking["']""")
_USER = ChatMessage(role="user", content="probeuser")
_ANSWER = ChatMessage(role="assistant", content="probeanswer")
_SYSTEM = ChatMessage(role="system", content="probesystem")
_TOOL = ToolSpec("probetool", "Tool.", {"type": "object", "properties": {"probekey": {"type": "string"}}})


def _called(*arguments: object, ids: Sequence[str] = (_ID,)) -> ChatMessage:
    texts = [json.dumps(value, ensure_ascii=False) for value in arguments]
    calls = (ChatCall("probecall", text, id) for text, id in zip(texts, ids, strict=True))
    return ChatMessage(role="assistant", calls=tuple(calls))


def _result(id: str = _ID) -> ChatMessage:
    return ChatMessage(role="tool", content="proberesult", name="probecall", call_id=id)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class Trials:
    """Renders conversations with a template in a tenth of the work that a request may do."""

    def __init__(self, template: CompiledTemplate, special_tokens: Mapping[str, str]) -> None:
        self._template = template
        self._special = special_tokens

    def text(self, chat: Sequence[ChatMessage], takes: TemplateCapabilities, tools: Sequence[ToolSpec] = ()) -> str:
        """Renders the template; empty when it fails."""
        variables = render_variables(
            self._special,
            [message_value(message, takes, str) for message in fitted(chat, takes)],
            [definition(tool) for tool in tools],
            takes,
            opens_reply=False,
            today=takes.day,
        )
        try:
            return self._template.render(variables, steps=_STEPS)
        except TemplateError:
            return ""

    def says_tools(self, takes: TemplateCapabilities) -> bool:
        """Whether the template writes calls, or a prompt is another one where tools are offered."""
        called, silent = _called(_SIMPLE), ChatMessage(role="assistant")
        for chat in ([_USER, called], [_USER, called, _result()]):
            written = self.text(chat, takes, [_TOOL])
            without = self.text([_USER, silent, *chat[2:]], takes, [_TOOL])
            if written and (written != without or "probevalue" in written):
                return True
        return self.text([_USER], takes, [_TOOL]) != self.text([_USER], takes)

    def arguments_slot(self, takes: TemplateCapabilities) -> str:
        """The text that the template writes for arguments of `SLOT` alone and not for none, with its brackets.

        Empty where that is nothing, or not found.
        """
        chats = ([_USER, _called(value), _result()] for value in ({}, {SLOT: SLOT}))
        none, text = (self.text(chat, takes, [_TOOL]) for chat in chats)
        start = _alike(none, text)
        end = len(text) - _alike(none[start:][::-1], text[start:][::-1])
        if not none or text.count(SLOT) != text.count(SLOT, start, end) or not text.count(SLOT):
            return ""
        # The same characters may stand before it and at its end; a tag is then taken as a whole.
        same = (i for i in range(start) if text[start - i : start] == text[end - i : end])
        turned = next((i for i in same if text[start - i] == "<"), 0)
        start, end = start - turned, end - turned
        bracketed = text[start - 1 : start] + text[end : end + 1] == "{}"
        return text[start - bracketed : end + bracketed].strip()

    def first(
        self,
        candidates: Sequence[TemplateCapabilities],
        chat: Sequence[ChatMessage],
        *words: str,
        tools: Sequence[ToolSpec] = (),
    ) -> TemplateCapabilities:
        """The first with which the template writes all the words; the very first when there is none."""
        fit = (takes for takes in candidates if all(word in self.text(chat, takes, tools) for word in words))
        return next(fit, candidates[0])


def find_capabilities(template: CompiledTemplate, special_tokens: Mapping[str, str]) -> TemplateCapabilities:
    """Finds the forms that the template takes: the usual one where it works, else the first that does."""
    trials = Trials(template, special_tokens)
    takes = TemplateCapabilities()
    for step in (_base, _system, _arguments, _calls, _reasoning, _images):
        takes = step(trials, takes)
    return takes


def _base(trials: Trials, takes: TemplateCapabilities) -> TemplateCapabilities:
    forms = [(False, False), (True, False), (False, True), (True, True)]
    candidates = [
        replace(takes, tools_as_list=as_list, content_as_parts=parts, day=day)
        for day in DAYS
        for as_list, parts in forms
    ]
    return trials.first(candidates, [_USER], _USER.content)


def _system(trials: Trials, takes: TemplateCapabilities) -> TemplateCapabilities:
    takes = trials.first([takes, replace(takes, system=False)], [_SYSTEM, _USER], _SYSTEM.content)
    later = [_USER, _ANSWER, _SYSTEM, _USER]
    return trials.first([takes, replace(takes, later_system=False)], later, _SYSTEM.content)


def _arguments(trials: Trials, takes: TemplateCapabilities) -> TemplateCapabilities:
    """An object where it works; text where only that works, or the object comes out as Python and the text as JSON.

    Where both come out the same, text: it is what the model wrote, to the last blank, and the cached prompt holds it.
    """
    as_text = replace(takes, arguments_as_text=True)
    for chat in ([_USER, _called(_SIMPLE), _result()], [_USER, _called(_SIMPLE)]):
        given, spelled = (trials.text(chat, form, [_TOOL]) for form in (takes, as_text))
        if "probevalue" not in given + spelled:
            continue
        python = str(_SIMPLE) in given and json.dumps(_SIMPLE) in spelled
        rich = [chat[0], _called(_RICH), *chat[2:]]
        same = given == spelled and trials.text(rich, takes, [_TOOL]) == trials.text(rich, as_text, [_TOOL])
        return as_text if "probevalue" not in given or python or same else takes
    return takes


def _calls(trials: Trials, takes: TemplateCapabilities) -> TemplateCapabilities:
    odd = "call_0"
    one = [_USER, _called(_SIMPLE, ids=[odd]), _result(odd)]
    takes = trials.first([takes, replace(takes, ids=IdForm.SHORT)], one, "probevalue")
    takes = trials.first([takes, replace(takes, ids=IdForm.NAMED)], one[:2], "probevalue", "probecall")
    ids = ("abcdefgh1", "abcdefgh2")
    two = [_USER, _called(_SIMPLE, {"probekey": "probesecond"}, ids=ids), *map(_result, ids)]
    single = replace(takes, parallel_calls=False)
    return trials.first([takes, single], two, "probevalue", "probesecond")


def _reasoning(trials: Trials, takes: TemplateCapabilities) -> TemplateCapabilities:
    """All names at once, unless a template reads several and would write the reasoning twice; or a part of the content.

    A template that prints what it does not know would show the part's keys.
    """

    def most(form: TemplateCapabilities) -> int:
        thought = "probethought"
        answer, call = replace(_ANSWER, reasoning=thought), replace(_called(_SIMPLE), reasoning=thought)
        texts = [trials.text([_USER, answer], form), trials.text([_USER, call, _result()], form, [_TOOL])]
        return max(0 if _PRINTED.search(text) else text.count(thought) for text in texts)

    in_parts = replace(takes, reasoning_names=(), reasoning_in_parts=True)
    if not most(takes):
        return in_parts if most(in_parts) == 1 else takes
    if most(takes) == 1:
        return takes
    single = (replace(takes, reasoning_names=(name,)) for name in REASONING_NAMES)
    return next((form for form in single if most(form) == 1), takes)


def _images(trials: Trials, takes: TemplateCapabilities) -> TemplateCapabilities:
    """The first type of part of which the template writes something for each, beside the text, and not its JSON."""

    def pictured(message: ChatMessage, count: int) -> ChatMessage:
        parts: list[TextPart | OpaquePart] = [*[OpaquePart("image", None)] * count, TextPart(message.content)]
        return replace(message, parts=tuple(parts))

    def writes(content: str, texts: Sequence[str]) -> bool:
        whole = all(content in text and not _PRINTED_PART.search(text) for text in texts)
        return whole and len(set(texts)) == len(texts)

    for type in ("image", "image_url"):
        seeing = replace(takes, image_type=type, images_in_results=True)
        if writes(_USER.content, [trials.text([pictured(_USER, count)], seeing) for count in range(3)]):
            result, begun = _result(), [_USER, _called(_SIMPLE)]
            texts = [trials.text([*begun, pictured(result, count)], seeing, [_TOOL]) for count in range(3)]
            return replace(seeing, images_in_results=writes(result.content, texts))
    return takes
