"""Conversations that a template is asked to write, to see how it writes them.

Their words are ones that no template has and none transforms, so that each is found again in what was written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

USER, ANSWER, REASONING, RESULT, NEXT = "zquser", "zqanswer", "zqreason", "zqresult", "zqnext"
NAMES = ("zqfna", "zqfnb", "zqfnc")
IDS = ("zqid00001", "zqid00002", "zqid00003")
REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")
SWITCHES = ("enable_thinking", "thinking", "enable_reasoning", "think", "add_thoughts", "use_thinking")
"""Variables that turn reasoning on or off in templates."""
_MOST_RENDERS = 90
_MOST_TEXT = 200_000

Json = dict[str, Any]


class Render(Protocol):
    """A template: what it makes of messages; None where it refuses or fails."""

    def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]],
        kwargs: Mapping[str, Any],
        generation: bool,
    ) -> str | None: ...


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    call_id: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that a template is asked to write."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()


def called(count: int = 1, arguments: Mapping[str, Any] | None = None) -> tuple[Call, ...]:
    """Calls of as many functions, with an argument each where none are given."""
    own = [{f"zqk{letter}": f"zqv{letter}"} if arguments is None else arguments for letter in "abc"]
    return tuple(Call(NAMES[i], own[i], IDS[i]) for i in range(count))


def tool(name: str, properties: Mapping[str, Any]) -> Json:
    """A function as templates take it."""
    described = {key: {**schema, "description": "zqtext"} for key, schema in properties.items()}
    parameters = {"type": "object", "properties": described, "required": []}
    return {"type": "function", "function": {"name": name, "description": "zqtool", "parameters": parameters}}


TOOLS = tuple(tool(name, {f"zqk{letter}": {"type": "string"} for letter in "ab"}) for name in NAMES)


class History(msgspec.Struct, frozen=True, kw_only=True):
    """How a template takes earlier replies: arguments as text, reasoning as a block of the content."""

    text_arguments: bool = False
    blocks: bool = False

    def message(self, reply: Reply) -> Json:
        message: Json = {"role": "assistant", "content": reply.text}
        if reply.reasoning and self.blocks:
            answer = [{"type": "text", "text": reply.text}] if reply.text else []
            message["content"] = [{"type": "thinking", "thinking": reply.reasoning}, *answer]
        elif reply.reasoning:
            message |= dict.fromkeys(REASONING_FIELDS, reply.reasoning)
        if reply.calls:
            message["tool_calls"] = [self._call(call) for call in reply.calls]
        return message

    def _call(self, call: Call) -> Json:
        arguments = json.dumps(call.arguments, ensure_ascii=False) if self.text_arguments else dict(call.arguments)
        return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


class Probe:
    """Asks a template. What it gives is the text behind the user's message; empty where the template refuses.

    It asks a limited number of times, so that no template is probed for long.
    """

    def __init__(self, render: Render, variables: Collection[str] = ()) -> None:
        self._render = render
        self._written: dict[str, str] = {}
        self.renders = 0
        self.switches = tuple(name for name in SWITCHES if name in variables)
        self.history = History()

    def settings(self, *, thinking: bool | None) -> dict[str, bool]:
        """The template's arguments that turn reasoning on or off; None: neither is said."""
        return {} if thinking is None else dict.fromkeys(self.switches, thinking)

    def prompt(self, *, thinking: bool | None = None, after: Sequence[Reply] = ()) -> str:
        """What stands where a reply begins; ``after`` a reply with calls and their results, where one is given."""
        return self._text(self._messages(after), thinking, generation=True)

    def reply(self, reply: Reply, *, thinking: bool | None = None, tools: Sequence[Json] = TOOLS) -> str:
        """The last message of a conversation."""
        return self._text([_user(USER), self.history.message(reply)], thinking, tools=tools)

    def before_user(self, reply: Reply) -> str:
        """The message with the beginning of the user's next."""
        messages = [_user(USER), self.history.message(reply), _user(NEXT)]
        return self._text(messages, None).partition(NEXT)[0]

    def before_result(self, reply: Reply, *, thinking: bool | None = None, tools: Sequence[Json] = TOOLS) -> str:
        """The message with the beginning of the results of its calls."""
        return self._text(self._messages((reply,)), thinking, tools=tools).partition(RESULT)[0]

    def reasoned(self) -> Iterator[str]:
        """What the template writes for reasoning before an answer, before calls, and before calls with results."""
        for thinking in (None, True, False) if self.switches else (None,):
            yield self.reply(Reply(reasoning=REASONING, text=ANSWER), thinking=thinking)
            yield self.reply(Reply(reasoning=REASONING, calls=called()), thinking=thinking)
            yield self.before_result(Reply(reasoning=REASONING, calls=called()), thinking=thinking)

    def _messages(self, replies: Sequence[Reply]) -> list[Json]:
        messages = [_user(USER)]
        for reply in replies:
            messages.append(self.history.message(reply))
            messages += [
                {"role": "tool", "name": call.name, "tool_call_id": call.call_id, "content": RESULT}
                for call in reply.calls
            ]
        return messages

    def _text(
        self, messages: list[Json], thinking: bool | None, *, generation: bool = False, tools: Sequence[Json] = TOOLS
    ) -> str:
        kwargs = self.settings(thinking=thinking)
        key = json.dumps([messages, kwargs, generation, len(tools), tools is TOOLS])
        if key not in self._written:
            self.renders += 1
            text = self._render(messages, tools=tools, kwargs=kwargs, generation=generation) if self._may_ask else None
            _, found, behind = (text or "").rpartition(USER)
            self._written[key] = behind if found and len(behind) < _MOST_TEXT else ""
        return self._written[key]

    @property
    def _may_ask(self) -> bool:
        return self.renders <= _MOST_RENDERS


def _user(text: str) -> Json:
    return {"role": "user", "content": text}
