"""Replies of every format that come out damaged, as each wire tells them, and the turn that follows.

A draw is a random reply (reasoning, text, calls) in one format, with one damage, over one wire: whole, streamed, and
sent back with a result for each call. `faults` says what of the law does not hold:

* every answer is 200, and streamed it is the same as whole; no text has surrogates;
* a call that is given has all of its words: none of them is in the content, and the finish is a call's;
* no word of the reasoning is in the content;
* a call that was not touched, or only as models do where they mean the same, is given as it was meant; and then none
  is given whole that has what was not meant;
* the next prompt has every word that the client was given.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.offered_calls import is_object
from antiphon.formats.openchatml import OpenChatML
from antiphon.formats.replies import CallForm
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, decode, encode_pieces
from antiphon.wire.projection import INVALID
from kit.api import Got, post_in_process
from kit.family_server import EVERY, family

CALL_WORD = re.compile(r"call(\d)word\d+")
WORD = re.compile(r"call\dword\d+|saidword\d+")
_PART = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]|\w+|\s+|.", re.DOTALL)
_TAG = re.compile(r"<[^<>\n]*>|\[[A-Z_]+\]|\]\]>|\]\(!|>>>|```")
_MARK = re.compile(r"</?[^<>\s=]+>|<[^<>\s=]+=|\[/?[A-Z_]+\]|\[\|\w+\|\]")
TEXT = "¦"
"""Stands in what spells a control and is text."""
_SAME = 4
"""Characters that the beginning of a call shares with what may stand in its place."""
_FRAMES = ("harmony", "openchatml")
"""Their controls end a frame wherever they stand."""
_ONE_CALL = ("bare object", "harmony", "openchatml")
_THINKS = ("deepseek r1", "arguments in tags")
"""Their prompts open the thought."""
_CALLS_ALONE = ("bare object", "muse", "solar")
"""Their templates leave out what was said beside calls."""
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array"}, "c": {"type": "object"}, "d": {"type": "integer"}},
}
NAMES = ("get_weather", "probe")


@dataclass(frozen=True)
class Speaker:
    """A format with a vocabulary, and how a model writes a message in it."""

    format: Format
    tokenizer: ByteTokenizer
    says: Callable[[Mapping[str, Any]], str]
    end: str
    app: Starlette
    engine: ScriptedEngine
    reply: list[int] = field(default_factory=list)

    def ids(self, text: str) -> list[int]:
        scanner = ControlScanner(list(self.tokenizer.controls))
        pieces = (*scanner.feed(text), *scanner.close())
        return encode_pieces([p if isinstance(p, Control) else p.replace(TEXT, "") for p in pieces], self.tokenizer)

    def spelled(self, ids: Sequence[int]) -> str:
        return decode(self.tokenizer, ids)


def _harmony(message: Mapping[str, Any]) -> str:
    return _frames(message, lambda name, number: f"<|channel|>commentary to={name} <|constrain|>json<|message|>")


def _openchatml(message: Mapping[str, Any]) -> str:
    def head(name: str, number: int) -> str:
        return f" to={name} call_id=c{number}<|channel|>commentary<|constrain|>json<|message|>"

    return _frames(message, head)


def _frames(message: Mapping[str, Any], head: Callable[[str, int], str]) -> str:
    """The message in frames; ``head`` is that of a call of this name, the calls numbered from 0."""
    parts = []
    if message.get("reasoning_content"):
        parts.append(f"<|channel|>analysis<|message|>{message['reasoning_content']}<|end|>")
    calls = message.get("tool_calls") or ()
    if message.get("content"):
        channel, end = ("commentary", "end") if calls else ("final", "return")
        parts.append(f"<|channel|>{channel}<|message|>{message['content']}<|{end}|>")
    for i, call in enumerate(calls):
        arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        parts.append(f"{head('functions.' + call['function']['name'], i)}{arguments}<|call|>")
    return "<|start|>assistant".join(parts)


@cache
def speaker(name: str) -> Speaker:
    """The format of that name behind a server, whose model says what `Speaker.reply` holds."""
    reply: list[int] = []
    end_ids: frozenset[int] = frozenset()
    format: Format
    if name in EVERY:
        known = family(name)
        format, tokenizer, end_ids = known.format, known.tokenizer, known.end_ids
        says = lambda message: known.says(message, TOOLS)  # noqa: E731
        end = next(map(str, (*known.format.stops, *known.format.replies.ends)))
    else:
        format = Harmony() if name == "harmony" else OpenChatML()
        tokenizer = ByteTokenizer(format.controls)
        says, end = (_harmony if name == "harmony" else _openchatml), "<|return|>"

    def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        return reply

    engine = ScriptedEngine(script, end_ids=end_ids, chunk=7, context=100_000)
    app = create_app(StaticCatalog({"small": Model(name="small", engine=engine, tokenizer=tokenizer, format=format)}))
    return Speaker(format, tokenizer, says, end, app, engine, reply)


FORMATS = ("harmony", "openchatml", *EVERY)
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": "Knows.", "parameters": SCHEMA}} for name in NAMES
]


# Random replies


def message(chance: random.Random, format: str) -> dict[str, Any]:
    """A reply as the chat API has it; each word of a call's values says of which call it is."""
    said: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    if format in _THINKS or chance.random() < 0.3:
        said["reasoning_content"] = f"I think of thoughtword{chance.randrange(100)}."
    calls = chance.choice([0, 1, 1, 1, 2, 2, 3])
    if not calls or chance.random() < 0.3:
        said["content"] = f"It is saidword{chance.randrange(100)}, I say."
    for i in range(min(calls, 1 if format in _ONE_CALL else 3)):
        given = {key: _value(chance, i, key) for key in chance.sample("abcd", chance.randint(1, 4))}
        function = {"name": chance.choice(NAMES), "arguments": given}
        id = f"functions.{function['name']}:{i}" if format == "kimi k2" else f"abcdefgh{i}"
        said["tool_calls"].append({"id": id, "type": "function", "function": function})
    return said


def _value(chance: random.Random, call: int, key: str) -> Any:
    word = f"call{call}word{chance.randrange(100)}"
    match key:
        case "a":
            return word + chance.choice(["", " and more", ' "quoted"', " it's", "\nline", " {x}", " [y]", " é", "\\"])
        case "b":
            return [word, chance.choice([1, True, None, "x", ["y"]])]
        case "c":
            return {"k": word, "l": chance.choice([1.5, False, None, {"m": "z"}])}
        case _:
            return chance.randrange(1000)


# Damages of the part of a reply that has its calls.

Damage = Callable[[str, random.Random], str]


def _cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text))] if text else text


def _on_parts(change: Callable[[list[str], int, random.Random], None]) -> Damage:
    def damage(text: str, chance: random.Random) -> str:
        parts = _PART.findall(text)
        if len(parts) > 1:
            change(parts, chance.randrange(len(parts) - 1), chance)
        return "".join(parts)

    return damage


def _double(parts: list[str], at: int, chance: random.Random) -> None:
    parts.insert(at, parts[at])


def _drop(parts: list[str], at: int, chance: random.Random) -> None:
    del parts[at]


def _swap(parts: list[str], at: int, chance: random.Random) -> None:
    parts[at], parts[at + 1] = parts[at + 1], parts[at]


def _exchange(signs: str) -> Damage:
    """One of the signs becomes another of them, or all of its kind do."""

    def damage(text: str, chance: random.Random) -> str:
        places = [i for i, sign in enumerate(text) if sign in signs]
        if not places:
            return text
        at = chance.choice(places)
        other = chance.choice([sign for sign in signs if sign != text[at]])
        return text.replace(text[at], other) if chance.random() < 0.3 else text[:at] + other + text[at + 1 :]

    return damage


def _rename(text: str, chance: random.Random) -> str:
    return text.replace(chance.choice(NAMES), "nosuch", chance.choice([1, 9]))


def _trail(text: str, chance: random.Random) -> str:
    ends = [found.end() for found in re.finditer(r"[}\])]", text)]
    at = chance.choice(ends) if ends else len(text)
    return f"{text[:at]} so be it {text[at:]}"


def _unclose(text: str, chance: random.Random) -> str:
    closes = [found.span() for found in re.finditer(r"</[^<>]+>|<[^<>]*end[^<>]*>|<\w+\|>|[}\])]", text)]
    start, end = chance.choice(closes) if closes else (len(text), len(text))
    return text[:start] + text[end:]


DAMAGES: Mapping[str, Damage] = {
    "none": lambda text, chance: text,
    "cut": _cut,
    "doubled": _on_parts(_double),
    "dropped": _on_parts(_drop),
    "swapped": _on_parts(_swap),
    "other quotes": _exchange("\"'`"),
    "other brackets": _exchange("{}[]()"),
    "unknown names": _rename,
    "trailing text": _trail,
    "missing close": _unclose,
}


_Meant = Callable[[str, str, random.Random], str]


def _between_tags(blanks: str) -> _Meant:
    def changed(text: str, format: str, chance: random.Random) -> str:
        return re.sub(r"(?<=>)\s*(?=<)", lambda at: blanks if chance.random() < 0.5 else at[0], text)

    return changed


def _without_ids(text: str, format: str, chance: random.Random) -> str:
    return re.sub(r', "\w+": "abcdefgh\d"|"\w+": "abcdefgh\d", |(\[CALL_ID\])?abcdefgh\d', "", text)


def _with_ids(text: str, format: str, chance: random.Random) -> str:
    return text.replace('{"name": ', '{"id": "z1", "name": ')


def _without_close(text: str, format: str, chance: random.Random) -> str:
    """Without the close of one value that is a text, or of a call before the next."""
    form = next(iter(getattr(getattr(speaker(format).format, "replies", None), "calls", ())), CallForm())
    values = form.pairs.values if form.pairs is not None and form.pairs.key else ()
    closes = [re.escape(value.after.rstrip("\n")) for value in values if value.reads != "nested"]
    if form.open and form.close.strip().startswith(("<", "[")):
        closes.append(re.escape(form.close) + f"(?={re.escape(form.separator + form.open)})")
    places = [found.span() for close in closes for found in re.finditer(close, text)]
    start, end = chance.choice(places or [(0, 0)])
    return text[:start] + text[end:]


MEANT: Mapping[str, _Meant] = {
    "no blanks": _between_tags(""),
    "blanks": _between_tags("  "),
    "line breaks": _between_tags("\n\n"),
    "no ids": _without_ids,
    "more ids": _with_ids,
    "no close before what is next": _without_close,
}
"""Damages behind which a reply means the same."""
_Values = Callable[[str, Sequence[str], random.Random], str]


def _marked(text: str) -> _Values:
    def marked(value: str, marks: Sequence[str], chance: random.Random) -> str:
        said = " or ".join(mark[0] + text + mark[1:] for mark in chance.choices(marks, k=chance.choice([1, 1, 2, 3])))
        return chance.choice([f"{said} {value}", f"{value} {said} {value}", f"{value}{said}"])

    return marked


VALUES: Mapping[str, _Values] = {
    "marks in strings": _marked(""),
    "marks as text": _marked(TEXT),
    "entities": lambda value, marks, chance: f"&lt;{value}&gt; &amp;amp; &quot;",
}
"""What becomes of strings in the arguments before a reply is written."""


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """The value with each string changed that has a word of a call's."""
    if isinstance(value, dict):
        return {key: _changed(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    return change(value) if isinstance(value, str) and CALL_WORD.search(value) else value


def marks(format: str) -> list[str]:
    """Tags of the format's own that may stand in a string, but those that end a reply."""
    model = speaker(format)
    texts = [*map(str, model.tokenizer.controls), *getattr(getattr(model.format, "replies", None), "literals", ())]
    texts = [] if format in _FRAMES else texts
    found = {mark for text in texts for mark in _MARK.findall(text)}
    ends = {model.end, *map(str, model.format.stops)}
    return sorted(found - ends) or ["<tag>"]


ALL = (*DAMAGES, *MEANT, *VALUES)
APART = ("none", "unknown names")
"""Damages that touch nothing but names: behind them calls that only commas part are what they were, too."""
LISTS = (
    *("command", "mistral list", "name as key", "the way Python calls", "Python in a list", "a list between tags"),
    *("a list with the id first", "the name as a key", "one object round all calls"),
)


# What the client of each wire gets, and sends back


@dataclass
class Answer:
    """``calls``: names, and arguments as a text; ``back``: what the next request has of it."""

    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str = ""
    back: Any = None
    ids: list[str] = field(default_factory=list)

    @property
    def told(self) -> tuple[str, list[tuple[str, str]], str]:
        return self.content, self.calls, self.finish


QUESTION = {"role": "user", "content": "And now?"}


class Chat:
    path = "/v1/chat/completions"
    called = "tool_calls"

    def request(self, history: Sequence[Any]) -> dict[str, Any]:
        return {"model": "small", "tools": TOOLS, "messages": [QUESTION, *history]}

    def whole(self, got: Got) -> Answer:
        choice = got.json["choices"][0]
        said = choice["message"]
        calls = said.get("tool_calls") or []
        return Answer(
            said.get("content") or "",
            [(call["function"]["name"], call["function"]["arguments"]) for call in calls],
            choice["finish_reason"],
            said,
            [call["id"] for call in calls],
        )

    def streamed(self, got: Got) -> Answer:
        answer, calls = Answer(), list[list[str]]()
        for event in got.events[:-1]:
            for choice in event["choices"]:
                answer.content += choice["delta"].get("content") or ""
                answer.finish = choice.get("finish_reason") or answer.finish
                for part in choice["delta"].get("tool_calls") or ():
                    if "name" in part["function"]:
                        calls.append([part["function"]["name"], ""])
                    calls[part["index"]][1] += part["function"].get("arguments") or ""
        answer.calls = [(name, arguments) for name, arguments in calls]
        return answer

    def history(self, answer: Answer) -> list[Any]:
        results = [{"role": "tool", "tool_call_id": id, "content": "Done."} for id in answer.ids]
        return [answer.back, *results, QUESTION]


class Responses:
    path = "/v1/responses"
    called = "completed"

    def request(self, history: Sequence[Any]) -> dict[str, Any]:
        tools = [{"type": "function", **tool["function"], "strict": False} for tool in TOOLS]
        return {"model": "small", "tools": tools, "input": [QUESTION, *history], "store": False}

    def whole(self, got: Got) -> Answer:
        return self._answer(got.json)

    def _answer(self, response: Any) -> Answer:
        items = response["output"]
        calls = [item for item in items if item["type"] == "function_call"]
        return Answer(
            "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"]),
            [(call["name"], call["arguments"]) for call in calls],
            response["status"],
            items,
            [call["call_id"] for call in calls],
        )

    def streamed(self, got: Got) -> Answer:
        events = _events(got)
        answer = self._answer(events[-1]["response"])
        answer.content = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        given: dict[str, str] = {}
        for event in events:
            if event["type"] == "response.function_call_arguments.delta":
                given[event["item_id"]] = given.get(event["item_id"], "") + event["delta"]
        calls = [item for item in events[-1]["response"]["output"] if item["type"] == "function_call"]
        answer.calls = [(call["name"], given.get(call["id"], "")) for call in calls]
        return answer

    def history(self, answer: Answer) -> list[Any]:
        results = [{"type": "function_call_output", "call_id": id, "output": "Done."} for id in answer.ids]
        return [*answer.back, *results, QUESTION]


class Messages:
    path = "/v1/messages"
    called = "tool_use"

    def request(self, history: Sequence[Any]) -> dict[str, Any]:
        tools = [{"name": name, "description": "Knows.", "input_schema": SCHEMA} for name in NAMES]
        return {"model": "small", "tools": tools, "messages": [QUESTION, *history], "max_tokens": 9000}

    def whole(self, got: Got) -> Answer:
        blocks = got.json["content"]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        return Answer(
            "".join(block["text"] for block in blocks if block["type"] == "text"),
            [(call["name"], _text_of(call["input"])) for call in calls],
            got.json["stop_reason"],
            blocks,
            [call["id"] for call in calls],
        )

    def streamed(self, got: Got) -> Answer:
        answer, calls = Answer(), list[list[str]]()
        for event in _events(got):
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                calls.append([event["content_block"]["name"], ""])
            delta = event.get("delta") or {}
            answer.content += delta.get("text", "")
            answer.finish = delta.get("stop_reason") or answer.finish
            if delta.get("type") == "input_json_delta":
                calls[-1][1] += delta["partial_json"]
        answer.calls = [(name, _canonical(arguments)) for name, arguments in calls]
        return answer

    def history(self, answer: Answer) -> list[Any]:
        results: list[Any] = [{"type": "tool_result", "tool_use_id": id, "content": "Done."} for id in answer.ids]
        text = [{"type": "text", "text": "And now?"}]
        said = [{"role": "assistant", "content": answer.back}] if answer.back else []
        return [*said, {"role": "user", "content": [*results, *text]}]


class Ollama:
    path = "/api/chat"
    called = "stop"

    def request(self, history: Sequence[Any]) -> dict[str, Any]:
        return {"model": "small", "tools": TOOLS, "messages": [QUESTION, *history], "options": {"num_predict": 9000}}

    def whole(self, got: Got) -> Answer:
        return self._answer(got)

    def streamed(self, got: Got) -> Answer:
        return self._answer(got)

    def _answer(self, got: Got) -> Answer:
        lines = [json.loads(line) for line in got.body.splitlines() if line]
        parts = [line["message"] for line in lines]
        calls = [call["function"] for part in parts for call in part.get("tool_calls") or ()]
        text = "".join(part.get("content") or "" for part in parts)
        back = {"role": "assistant", "content": text, "tool_calls": [{"function": call} for call in calls]}
        given = [(call["name"], _text_of(call["arguments"])) for call in calls]
        return Answer(text, given, lines[-1]["done_reason"], back, [call["name"] for call in calls])

    def history(self, answer: Answer) -> list[Any]:
        results = [{"role": "tool", "tool_name": name, "content": "Done."} for name in answer.ids]
        return [answer.back, *results, QUESTION]


Wire = Chat | Responses | Messages | Ollama
WIRES: Mapping[str, Wire] = {"chat": Chat(), "responses": Responses(), "messages": Messages(), "ollama": Ollama()}


def limited(wire: Wire, request: dict[str, Any], most: int | None) -> dict[str, Any]:
    """The request whose answer has ``most`` tokens; None: as many as it says."""
    match wire:
        case _ if most is None:
            return request
        case Chat():
            return {**request, "max_completion_tokens": most}
        case Responses():
            return {**request, "max_output_tokens": max(16, most)}
        case Messages():
            return {**request, "max_tokens": most}
        case Ollama():
            return {**request, "options": {"num_predict": most}}


def _events(got: Got) -> list[dict[str, Any]]:
    lines = got.body.decode().split("\n")  # not `splitlines`, which splits within a text too
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def _text_of(arguments: Any) -> str:
    """Arguments that a wire has as an object: of what is no JSON object the text."""
    raw = arguments.get(INVALID) if set(arguments) == {INVALID} else None
    return raw if isinstance(raw, str) else json.dumps(arguments, ensure_ascii=False)


def _canonical(text: str) -> str:
    """The same of arguments that came as a text."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return text
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else text


# The law


@dataclass(frozen=True)
class Draw:
    """One reply; ``end``: by the model's own control, by its engine alone, or by a limit."""

    format: str
    wire: str
    damage: str
    seed: int

    @property
    def chance(self) -> random.Random:
        return random.Random(f"{self.format} {self.damage} {self.seed}")


@dataclass(frozen=True)
class Reply:
    """``how`` it ends: by the model's own "end", by its engine's "stop", or by a "length".

    ``intact``: the calls that must be given; ``meant``: all that may be given whole; None: any.
    """

    text: str
    how: str
    intact: tuple[tuple[str, Any], ...]
    meant: tuple[tuple[str, Any], ...] | None


def reply_of(draw: Draw) -> Reply:
    """What the model says."""
    chance, model = draw.chance, speaker(draw.format)
    said = message(chance, draw.format)
    if draw.damage in VALUES:
        change, tags = VALUES[draw.damage], marks(draw.format)
        said = {**said, "tool_calls": _changed(said["tool_calls"], lambda value: change(value, tags, chance))}
    calls = said["tool_calls"]
    content = said["content"] or "-"
    steps = [model.says({**said, "tool_calls": calls[:n], "content": content}) for n in range(len(calls))]
    whole = model.says(said)
    skew = len(model.says({**said, "content": content})) - len(whole)
    steps.append(model.says({**said, "content": content}))
    begins = [_shared(one, other) - skew for one, other in itertools.pairwise(steps)]
    body, end = whole.removesuffix(model.end), model.end if whole.endswith(model.end) else ""
    at = min(max(0, begins[0]), len(body)) if begins else len(body)
    damaged = DAMAGES[draw.damage](body[at:], chance) if draw.damage in DAMAGES else body[at:]
    if draw.damage in MEANT:
        damaged = MEANT[draw.damage](damaged, draw.format, chance)
    damaged = body[:at] + damaged
    how = chance.choice(["end", "end", "stop", "length"])
    touched = len(body) - _shared(body[::-1], damaged[::-1])
    behind = [call for call, begin in zip(calls, begins, strict=True) if begin > touched + _SAME]
    if _TAG.findall(body) != _TAG.findall(damaged) or (draw.format in LISTS and draw.damage not in APART):
        behind = []
    if draw.damage not in DAMAGES:
        behind = calls
    meant = None if draw.damage in DAMAGES and draw.damage not in ("none", "cut") else _meant(calls)
    return Reply(damaged + (end if how == "end" else ""), how, _meant(behind), meant)


def _meant(calls: Sequence[Any]) -> tuple[tuple[str, Any], ...]:
    said = [call["function"] for call in calls]
    return tuple((one["name"], _changed(one["arguments"], lambda text: text.replace(TEXT, ""))) for one in said)


def _shared(one: str, other: str) -> int:
    """The length of the beginning that two texts share."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


async def faults(draw: Draw) -> list[str]:
    """What does not hold of the draw; nothing where all does."""
    model, wire = speaker(draw.format), WIRES[draw.wire]
    said = reply_of(draw)
    model.reply[:] = model.ids(said.text)
    request = wire.request([])
    if said.how == "length":
        request = limited(wire, request, max(1, len(model.reply)))
    model.engine.requests.clear()
    got = await post_in_process(model.app, wire.path, **request, stream=False)
    flow = await post_in_process(model.app, wire.path, **request, stream=True)
    for one in (got, flow):
        if one.status != 200:
            return [f"status {one.status}: {one.body[:300]!r}"]
    answer, streamed = wire.whole(got), wire.streamed(flow)
    found = list(_told(answer, streamed, wire, said))
    return found + [f"next turn: {fault}" async for fault in _next(draw, answer)]


def _told(answer: Answer, streamed: Answer, wire: Wire, said: Reply) -> Iterator[str]:
    if said.how == "length" and wire.path == Messages.path and len(answer.calls) < len(streamed.calls):
        streamed.calls.pop()  # A call that a limit cut is no block of a whole answer there.
    if answer.told != streamed.told:
        yield f"streamed {streamed.told} is not whole {answer.told}"
    everything = json.dumps([answer.content, answer.calls])
    if re.search(r"\\ud[89a-f][0-9a-f]{2}", re.sub(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", "", everything)):
        yield f"surrogates: {everything}"
    if "\ufffd" in answer.content or any("\ufffd" in arguments for _, arguments in answer.calls):
        yield f"replaced: {everything}"
    given = {found.group(1) for _, arguments in answer.calls for found in CALL_WORD.finditer(arguments)}
    spilt = [found.group() for found in CALL_WORD.finditer(answer.content) if found.group(1) in given]
    if spilt:
        yield f"spilt {spilt}: content {answer.content!r}, calls {answer.calls}"
    if "thoughtword" in answer.content:
        yield f"leaked: content {answer.content!r}"
    given_whole = [(name, json.loads(text)) for name, text in answer.calls if is_object(text)]
    lost = [call for call in said.intact if call not in given_whole]
    if lost:
        yield f"swallowed {lost}: content {answer.content!r}, calls {answer.calls}"
    made = [
        call for call in given_whole if said.meant is not None and not any(_within(call, one) for one in said.meant)
    ]
    if made:
        yield f"made up {made}: content {answer.content!r}, calls {answer.calls}"
    if answer.calls and said.how != "length" and answer.finish != wire.called:
        yield f"finish {answer.finish!r} beside {answer.calls}"


def _within(call: tuple[str, Any], meant: tuple[str, Any]) -> bool:
    """Whether all that a call has is what was meant."""
    return call[0] == meant[0] and all(key in meant[1] and meant[1][key] == value for key, value in call[1].items())


async def _next(draw: Draw, answer: Answer) -> AsyncIterator[str]:
    model, wire = speaker(draw.format), WIRES[draw.wire]
    before = list(model.engine.requests[0][0]) + list(model.reply)
    got = await post_in_process(model.app, wire.path, **wire.request(wire.history(answer)))
    if got.status != 200:
        yield f"{got.status} {got.body[:400]!r}"
        return
    prompt = list(model.engine.requests[-1][0])
    if prompt[: len(before)] == before:
        return
    spelled = model.spelled(prompt)
    content = "" if answer.calls and draw.format in _CALLS_ALONE else answer.content
    words = WORD.findall(" ".join([content, *(arguments for _, arguments in answer.calls)]))
    lost = [word for word in words if word not in spelled]
    if lost:
        yield f"lost {lost} of {answer.told}"
