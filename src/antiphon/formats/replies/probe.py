"""Conversations that a template is asked to write, to see how it writes them.

Their words are ones that no template has and none transforms, so that each is found again in what was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from .description import Members, Slot

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
        """The text where a reply begins; ``after`` replies with calls and their results, where they are given."""
        return self._text(self._messages(after), thinking, generation=True)

    def instructions(self) -> str:
        """The prompt of a question with tools, which may show the model how to call them."""
        return (self._render([_user(USER)], tools=TOOLS, kwargs={}, generation=True) or "")[:_MOST_TEXT]

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
        """Yields the template's text for reasoning before an answer, before calls, and before calls with results."""
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
            may_ask = self.renders <= _MOST_RENDERS
            text = self._render(messages, tools=tools, kwargs=kwargs, generation=generation) if may_ask else None
            _, found, behind = (text or "").rpartition(USER)
            self._written[key] = behind if found and len(behind) < _MOST_TEXT else ""
        return self._written[key]


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


# Finds a call in what a template wrote: where it stands, and what its parts say.

_DECODER = json.JSONDecoder()
_COUNTED = re.compile(r"(\D*?)(\d+)(.*)", re.DOTALL)
_JOINED = re.compile(r"[\w./-]*\Z")
_MOST_OBJECTS = 64

What = Literal["name", "call_id", "index"]
Head = list[tuple[What, str]]
"""Fields that are read before a call's arguments, with the text behind each."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """One call in a text: where it starts and ends, and its arguments where they are one JSON value."""

    start: int
    end: int
    arguments: tuple[int, int] | None = None
    value: Any = None


def located(text: str, call: Call, start: int) -> Written | None:
    key, value = next(iter(call.arguments.items()))
    for begin, end, found in _objects(text, start):
        if not _holds(found, key, value):
            continue
        if _mentions(found, call.name):
            return Written(start=begin, end=end, arguments=(begin, end), value=found)
        if found == call.arguments:
            heads = [at for word in (call.name, call.call_id) if 0 <= (at := text.find(word, start)) < begin]
            return Written(start=min(heads), end=end, arguments=(begin, end)) if heads else None
    at = text.find(value, text.find(key, start))
    heads = [place for word in (call.name, call.call_id) if 0 <= (place := text.find(word, start)) < at]
    return Written(start=min(heads), end=at + len(value)) if heads and at >= 0 else None


def _objects(text: str, start: int) -> Iterator[tuple[int, int, Any]]:
    """The JSON objects in a text, outer ones first."""
    at = text.find("{", start)
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
            yield at, end, value
        except ValueError:
            pass
        at = text.find("{", at + 1)


def _holds(value: Any, key: str, inner: str) -> bool:
    """Whether the arguments are in a value, as an object or as its text."""
    if isinstance(value, dict):
        return value.get(key) == inner or any(_holds(each, key, inner) for each in value.values())
    if isinstance(value, list):
        return any(_holds(each, key, inner) for each in value)
    return isinstance(value, str) and value.startswith("{") and key in value and inner in value


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return name in value or any(_mentions(each, name) for each in value.values())
    return isinstance(value, str) and value == name


def members_of(call: Call, values: list[Any]) -> Members:
    """The keys of a call that is one JSON object."""
    places = list(_places(values[0], ""))
    if any(key == call.name for key in values[0]):
        return Members(name="")
    name = next((place for place, value in places if value == call.name), "name")
    arguments = next((place for place, value in places if _is_arguments(value, call)), "arguments")
    call_id = next((place for place, value in places if call.call_id and value == call.call_id), "")
    call_id = call_id or (_counted(values, {name, arguments}) if len(values) > 1 else "")
    order = [place for place, _ in places]
    first = bool(call_id) and order.index(call_id) < order.index(name)
    swapped = {name, arguments} <= {*order} and order.index(arguments) < order.index(name)
    return Members(name=name, arguments=arguments, call_id=call_id, id_first=first, arguments_first=swapped)


def _is_arguments(value: Any, call: Call) -> bool:
    return value == call.arguments or (isinstance(value, str) and value.startswith("{") and "zqka" in value)


def _places(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        place = f"{path}.{key}" if path else key
        yield place, inner
        if isinstance(inner, dict) and "zqka" not in inner:
            yield from _places(inner, place)


def _counted(values: list[Any], known: set[str]) -> str:
    """The member by which the calls differ besides their names and arguments: a number of the template's own."""
    first, second = dict(_places(values[0], "")), dict(_places(values[1], ""))
    differing = [place for place in first if place not in known and first[place] != second.get(place)]
    return next((place for place in differing if not isinstance(first[place], dict)), "")


def head_of(text: str, call: Call) -> Head:
    parts = re.split(f"({re.escape(call.name)}|{re.escape(call.call_id)})", text)
    return [("name" if parts[i] == call.name else "call_id", parts[i + 1]) for i in range(1, len(parts), 2)]


def slots_of(heads: list[Head], opening: str) -> tuple[tuple[Slot, ...], str]:
    """The slots, and how much of the opening belongs to the first of them: an id that spells the name begins there."""
    slots: list[Slot] = []
    prefix = ""
    for i, (what, after) in enumerate(heads[0]):
        other = heads[1][i][1] if len(heads) > 1 and i < len(heads[1]) else after
        one, two = _COUNTED.fullmatch(after), _COUNTED.fullmatch(other)
        if one is None or two is None or one.group(2) == two.group(2) or one.group(1, 3) != two.group(1, 3):
            slots.append(Slot(reads=what, after=after))
        elif what == "name" and not i and len(one.group(1)) == 1 and one.group(1) in ":#-_.":
            found = _JOINED.search(opening)
            prefix = found.group() if found else ""
            slots.append(Slot(reads="call_id", pattern=f"{prefix}{{name}}{one.group(1)}{{index}}", after=one.group(3)))
        else:
            slots += [Slot(reads="name", after=one.group(1)), Slot(reads="index", after=one.group(3))]
    if all(slot.reads != "name" and not slot.pattern for slot in slots):
        slots = [
            replace(slot, pattern="functions.{name}:{index}") if slot.reads == "call_id" else slot for slot in slots
        ]
    return tuple(slots), prefix
