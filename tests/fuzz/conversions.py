"""Converts random chats there and back through every pair of forms, with known and unknown keys at any depth.

    python tests/fuzz/conversions.py [DRAWS] [--seed N] [--shown N]

What comes back otherwise than it went must be in the report, and what the report calls lost must be missing. Each key
that no field has is reported by its path. An input that the other form cannot say is refused, and counted.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from antiphon.conversation import Message
from antiphon.conversion import TARGETS, Conversion, Loss
from antiphon.conversion.convert import source_named
from antiphon.conversion.form import header_of
from antiphon.errors import AntiphonError

Json = dict[str, Any]
FORMS = tuple(TARGETS)
WORDS = ("Hi", "", "a\nb", "é", "<|end|>", "42", '{"a": 1}', "# Tools", "so", "No.", "Ж <| x")
VALUES = (1, True, "x", {"type": "ephemeral"}, [1, {"a": None}], 0.5)
KNOWN = (
    "name", "refusal", "tool_call_id", "reasoning", "reasoning_content", "phase", "status", "id", "channel",
    "recipient", "content_type", "namespace", "index", "call_id", "summary", "output", "text", "description",
)  # fmt: skip
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
ARGUMENTS: tuple[Any, ...] = ("{}", '{"a": 1}', '{ "a":1 }', {"a": 1}, {}, '{"a": ', "")


@dataclass(slots=True)
class Drawn:
    """A random input; ``unknown`` are the paths of keys that no field has."""

    rng: random.Random
    unknown: list[str] = field(default_factory=list)
    number: int = 0

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def word(self) -> str:
        return self.rng.choice(WORDS)

    def odd(self, value: Json, path: str, part: float = 0.03) -> Json:
        """The object, now and then with a key that no field has."""
        if self.chance(part):
            self.number += 1
            key = f"{self.rng.choice(('x_odd', 'cache_control', 'extra_content', 'weight'))}{self.number}"
            value[key] = self.rng.choice(VALUES)
            self.unknown.append(f"{path}.{key}" if path else key)
        if self.chance(part):  # One that other objects have; it may be taken.
            value.setdefault(self.rng.choice(KNOWN), self.word())
        return value


# Chat JSON.


def chat(draw: Drawn) -> Json:
    rng, messages = draw.rng, list[Json]()
    while len(messages) < rng.randrange(1, 6):
        messages += _chat_messages(draw, len(messages))
    body: Json = {"messages": messages, **_beside(draw, rng.choice(("max_tokens", "max_completion_tokens")))}
    if draw.chance(0.1):
        body["tools"] = [draw.odd({"type": "function", "function": _function(draw, "tools[0].function")}, "tools[0]")]
    if draw.chance(0.05):
        body["response_format"] = rng.choice(
            (
                {"type": "text"},
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            )
        )
    if draw.chance(0.1):
        body["reasoning_effort"] = rng.choice(("low", "high", "sideways", None))
    return draw.odd(body, "")


def _beside(draw: Drawn, limit: str) -> Json:
    given = {"model": "m", "temperature": 0.5, "top_p": 1, "seed": None, "stop": ["x"], limit: 9, "n": 2, "user": "u"}
    return {key: value for key, value in given.items() if draw.chance(0.04)}


def _function(draw: Drawn, path: str) -> Json:
    given = {"description": draw.word(), "parameters": SCHEMA, "strict": draw.rng.choice((True, None))}
    return draw.odd({"name": "f"} | {key: value for key, value in given.items() if draw.chance(0.5)}, path)


def _chat_messages(draw: Drawn, number: int) -> list[Json]:
    path = f"messages[{number}]"
    kind = draw.rng.choice(("system", "developer", "user", "user", "assistant", "assistant", "calls"))
    message: Json = {"role": kind}
    if kind not in ("assistant", "calls"):
        message["content"] = _content(draw, path, media=kind == "user")
        if draw.chance(0.05):
            message["name"] = "Ada"
        return [draw.odd(message, path)]
    message["role"] = "assistant"
    if draw.chance(0.2):
        message[draw.rng.choice(("reasoning", "reasoning_content"))] = draw.word()
    if kind == "assistant" or draw.chance(0.3):
        message["content"] = _content(draw, path, media=False)
    for key, value in (
        ("refusal", draw.rng.choice(("No.", None))),
        ("name", "Bo"),
        ("annotations", []),
        ("audio", None),
    ):
        if draw.chance(0.04):
            message[key] = value
    if "content" not in message and kind == "assistant":
        message["content"] = draw.word()
    draw.odd(message, path)
    return [message] if kind == "assistant" else [message, *_calls(draw, message, number)]


def _content(draw: Drawn, path: str, *, media: bool) -> Any:
    if draw.chance(0.8):
        return draw.word()
    parts: list[Json] = [{"type": "text", "text": draw.word()} for _ in range(draw.rng.randrange(1, 3))]
    if media and draw.chance(0.3):
        parts.append(json.loads(json.dumps(IMAGE)))
    if "[" in path and not media and draw.chance(0.1):
        parts.append({"type": "refusal", "refusal": "No."})
    return [
        part if "image_url" in part else draw.odd(part, f"{path}.content[{i}]", 0.1) for i, part in enumerate(parts)
    ]


def _calls(draw: Drawn, message: Json, number: int) -> Iterator[Json]:
    calls, path = [], f"messages[{number}]"
    for i in range(draw.rng.randrange(1, 3)):
        at = f"{path}.tool_calls[{i}]"
        function = draw.odd({"name": draw.rng.choice("fg"), "arguments": draw.rng.choice(ARGUMENTS)}, f"{at}.function")
        calls.append(draw.odd({"id": f"c{number}{i}", "type": "function", "function": function}, at))
    if len(calls) == 1 and draw.chance(0.1):  # As they were before there were tools.
        message["function_call"] = {key: calls[0]["function"][key] for key in ("name", "arguments")}
        draw.unknown = [one for one in draw.unknown if not one.startswith(f"{path}.tool_calls")]
        yield draw.odd(
            {"role": "function", "name": message["function_call"]["name"], "content": draw.word()},
            f"messages[{number + 1}]",
        )
        return
    message["tool_calls"] = calls
    if draw.chance(0.1):  # The next message may be a call of its own, too: then these wait.
        return
    for i, call in enumerate(draw.rng.sample(calls, len(calls))):
        at = f"messages[{number + 1 + i}]"
        result: Json = {"role": "tool", "tool_call_id": call["id"], "content": _content(draw, at, media=False)}
        if draw.chance(0.1):
            result["name"] = draw.rng.choice("fg")
        yield draw.odd(result, at)


# Responses.


def responses(draw: Drawn) -> Json:
    items: list[Json] = []
    while len(items) < draw.rng.randrange(1, 7):
        items += _items(draw, len(items))
    body: Json = {"input": items, **_beside(draw, "max_output_tokens")}
    if draw.chance(0.1):
        body["tools"] = [draw.odd({"type": "function", **_function(draw, "tools[0]")}, "tools[0]", 0)]
    if draw.chance(0.05):
        body.setdefault("tools", []).append({"type": "web_search"})
    if draw.chance(0.05):
        body["instructions"] = "Be brief."
    if draw.chance(0.1):
        body["reasoning"] = draw.odd({"effort": draw.rng.choice(("low", "sideways"))}, "reasoning")
    return draw.odd(body, "")


def _items(draw: Drawn, number: int) -> list[Json]:
    path, rng = f"input[{number}]", draw.rng
    kind = rng.choice(
        ("system", "user", "user", "assistant", "assistant", "reasoning", "call", "custom", "search", "mcp")
    )
    if kind in ("system", "user", "assistant"):
        item: Json = {"type": "message", "role": kind, "content": _item_content(draw, path, kind)}
        if kind == "assistant" and draw.chance(0.3):
            item["phase"] = rng.choice(("commentary", "final_answer"))
        if draw.chance(0.2):
            del item["type"]
        if draw.chance(0.05):
            item |= {"id": "msg_1", "status": "completed"}
        return [draw.odd(item, path)]
    if kind == "reasoning":
        texts = [{"type": "reasoning_text", "text": draw.word()} for _ in range(rng.randrange(3))]
        summary = [{"type": "summary_text", "text": "short"}] if draw.chance(0.2) else []
        return [draw.odd({"type": "reasoning", "content": texts, "summary": summary}, path)]
    if kind == "search":
        return [{"type": "web_search_call", "id": "w", "status": "completed"}] if draw.chance(0.2) else []
    if kind == "mcp":
        given = {
            "type": "mcp_call",
            "id": f"m{number}",
            "server_label": "s",
            "name": "t",
            "arguments": "{}",
            "output": "7",
        }
        return [draw.odd(given, path)] if draw.chance(0.2) else []
    id, custom = f"c{number}", kind == "custom" and draw.chance(0.3)
    more = (
        {"input": "text"} if custom else {"arguments": rng.choice([one for one in ARGUMENTS if isinstance(one, str)])}
    )
    call: Json = {"type": "custom_tool_call" if custom else "function_call", "call_id": id, "name": "f", **more}
    answer: Json = {"type": f"{call['type']}_output", "call_id": id, "output": draw.word()}
    return [draw.odd(call, path), draw.odd(answer, f"input[{number + 1}]")]


def _item_content(draw: Drawn, path: str, role: str) -> Any:
    if draw.chance(0.5):
        return draw.word()
    kind = "output_text" if role == "assistant" else "input_text"
    parts: list[Json] = [{"type": kind, "text": draw.word()} for _ in range(draw.rng.choice((1, 1, 1, 2)))]
    if role == "assistant":
        parts[0] |= {"annotations": []}
        if draw.chance(0.1):
            parts[-1] = {"type": "refusal", "refusal": "No."}
    return [draw.odd(part, f"{path}.content[{i}]") for i, part in enumerate(parts)]


# Harmony's JSON.


def harmony_json(draw: Drawn) -> Json:
    rng, messages = draw.rng, list[Json]()
    for i in range(rng.randrange(1, 6)):
        messages.append(draw.odd(_harmony_message(draw, f"messages[{i}]"), f"messages[{i}]"))
    return draw.odd({"messages": messages}, "")


def _harmony_message(draw: Drawn, path: str) -> Json:
    rng = draw.rng
    role = rng.choice(("system", "developer", "user", "assistant", "assistant", "call", "tool"))
    if role in ("system", "developer") and draw.chance(0.2):
        given: Json = {"type": f"{role}_content"}
        if role == "developer":
            given["instructions"] = "Be brief."
        return {"role": role, "content": [draw.odd(given, f"{path}.content[0]")]}
    content: Any = draw.word()
    if draw.chance(0.2):
        content = [
            draw.odd({"type": "text", "text": draw.word()}, f"{path}.content[{i}]") for i in range(rng.randrange(1, 3))
        ]
    if role == "call":
        kind = {"content_type": "<|constrain|>json"} if draw.chance(0.8) else {}
        return {"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content": content, **kind}
    message: Json = {"role": role, "content": content}
    if role == "assistant":
        message["channel"] = rng.choice(("analysis", "commentary", "final"))
    if role == "tool":
        message |= {"name": "functions.f", "recipient": "assistant", "channel": "commentary"}
    if draw.chance(0.05):
        message["name"] = "functions.g" if role == "tool" else "Ada"
    return message


DRAWN: dict[str, Callable[[Drawn], Json]] = {"chat": chat, "responses": responses, "harmony-json": harmony_json}
HEADED = (
    b"x_odd: {a: [1, null]}\n", b"generation_settings: {reasoning_effort: sideways}\n", b"generation_settings: 3\n",
    b"generation_settings: {builtin_tools: [browser, 3], mirostat: 2}\n", b"tags: [a]\n",
    b"generation_settings: {temperature: hot, top_k: 4, stop: x}\n",
)  # fmt: skip


# What an input says, however it is spelled.


def meaning(form: str, data: bytes) -> Any:
    if form in DRAWN:
        return MEANINGS[form](json.loads(data))
    source = source_named(form)
    messages = [*source.feed(data), *source.close()]
    return (
        source.about.settings,
        source.about.builtins,
        dict(header_of(source.about).fields),
        list(map(_fields, messages)),
    )


def _fields(message: Message) -> Message:
    return message


def given(value: Mapping[str, Any], *absent: Any) -> Json:
    """The object without what says nothing."""
    return {key: inner for key, inner in value.items() if inner is not None and inner not in absent}


def _definition(function: Json) -> Json:
    return {key: value for key, value in given(function).items() if (key, value) != ("description", "")}


def chat_meaning(body: Json) -> Json:
    beside = given({key: value for key, value in body.items() if key != "messages"}, [])
    if "max_tokens" in beside:
        beside["max_completion_tokens"] = beside.pop("max_tokens")
    beside["tools"] = [{**tool, "function": _definition(tool["function"])} for tool in beside.get("tools", [])]
    names = {
        call["id"]: call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls") or []
    }
    return {**beside, "messages": [_chat_message(message, names) for message in body["messages"]]}


def _chat_message(message: Json, names: Mapping[str, str]) -> Json:
    value = given(message, [])
    if value["role"] == "tool" and value.get("name") == names.get(value.get("tool_call_id", "")):
        del value["name"]  # That of its call says nothing more.
    value["content"] = _texts(value.get("content"))
    value["reasoning"] = value.pop("reasoning", None) or value.pop("reasoning_content", None) or ""
    value.pop("reasoning_content", None) if not value.get("reasoning_content") else None
    value["role"] = value["role"].replace("function", "tool")
    if called := value.pop("function_call", None):
        value.setdefault("tool_calls", []).append({"type": "function", "function": called})
    value["tool_calls"] = [{**call, "function": _call(call["function"])} for call in value.get("tool_calls", [])]
    return value


def _call(function: Json) -> Json:
    arguments = function["arguments"]
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, separators=(",", ":"))
    return {**function, "arguments": arguments}


def _texts(content: Any) -> Any:
    """The content as parts; no text is none."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return [_part(part) for part in parts] or [{"type": "text", "text": ""}]


def _part(part: Json) -> Json:
    plain = part["type"] in ("input_text", "output_text", "text", "reasoning_text")
    return {**given(part, []), "type": "text" if plain else part["type"]}


def responses_meaning(body: Json) -> Json:
    beside = given({key: value for key, value in body.items() if key not in ("input", "instructions")}, [])
    beside["tools"] = [_definition(tool) for tool in beside.get("tools", [])]
    lead = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") is not None else []
    items = [
        *lead,
        *([{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]),
    ]
    return {**beside, "input": [_item(item, after) for item, after in zip(items, [*items[1:], {}], strict=False)]}


def _item(item: Json, after: Json) -> Json:
    value = {"type": "message", **given(item, [])}
    if value["type"] in ("message", "reasoning"):
        value["content"] = _texts(value.get("content"))
    if value.get("role") == "assistant":
        called = after.get("type") in ("function_call", "custom_tool_call")
        value.setdefault("phase", "commentary" if called else "final_answer")
    return value


def harmony_meaning(body: Json) -> Json:
    return {**body, "messages": [given(message) for message in body["messages"]]}


MEANINGS = {"chat": chat_meaning, "responses": responses_meaning, "harmony-json": harmony_meaning}


# The laws.


@dataclass(frozen=True)
class Failure:
    law: str
    way: tuple[str, str]
    text: str
    lines: list[str]
    back: str

    def __str__(self) -> str:
        return "\n  ".join([f"{self.law}: {' → '.join(self.way)}", self.text, *self.lines, self.back])


def converted(data: bytes, source: str, to: str, losses: list[Loss]) -> bytes:
    return b"".join(Conversion(to=to, source=source, on_loss=losses.append).run([data]))


def _names(loss: Loss, path: str) -> bool:
    """Whether the loss is of that place, or of all that is around it; a message that is part of another is none."""
    around = path.startswith((f"{loss.path}.", f"{loss.path}[")) and "part of" not in (loss.becomes or "")
    return loss.path == path or around


def _change(loss: Loss) -> tuple[str, str, str | None]:
    """A change by its place, without numbers; one that is undone on the way back is no difference."""
    return re.sub(r"\[\d+\]", "[]", loss.path), loss.what, loss.becomes


def check(form: str, data: bytes, to: str, unknown: list[str]) -> Failure | None:
    """Raises `AntiphonError` where a form cannot say it."""
    there, returning = list[Loss](), list[Loss]()
    back = converted(converted(data, form, to, there), to, form, returning)
    losses = [*there, *returning]
    differs = meaning(form, data) != meaning(form, back)
    fail = partial(
        Failure,
        way=(form, to),
        text=data.decode("utf-8", "replace"),
        lines=list(map(str, losses)),
        back=back.decode("utf-8", "replace"),
    )
    if missing := [path for path in unknown if not any(_names(loss, path) for loss in losses)]:
        return fail(f"no line of {missing}")
    if differs and not losses:
        return fail("a difference without a line")
    lost = {_change(loss) for loss in losses if loss.kind == "semantic"}
    undone = {(path, becomes, what) for path, what, becomes in map(_change, losses)}
    if not differs and lost - undone:
        return fail("a line without a difference")
    return None


def headed(draw: Drawn, transcript: bytes) -> bytes:
    """The transcript with something else in its header, now and then."""
    more = draw.rng.choice(HEADED) if draw.chance(0.2) else b""
    return transcript.replace(b'version: "2.2"\n', b'version: "2.2"\n' + more, 1)


def fuzz(seed: int, draws: int, *, ways: int = len(FORMS)) -> tuple[Counter[str], list[Failure]]:
    """Counts the trips, and those refused, and returns the failures. Each draw goes through so many forms."""
    rng, counts, failures = random.Random(seed), Counter[str](), list[Failure]()
    for _ in range(draws):
        form = rng.choice(FORMS)
        drawn = Drawn(rng)
        origin = form if form in DRAWN else rng.choice(list(DRAWN))
        data = json.dumps(DRAWN[origin](drawn)).encode()
        try:
            data = data if form == origin else headed(drawn, converted(data, origin, form, []))
        except AntiphonError:
            counts["refused"] += 1
            continue
        for to in rng.sample(FORMS, ways):
            try:
                failure = check(form, data, to, drawn.unknown if form == origin else [])
            except AntiphonError:
                counts["refused"] += 1
                continue
            counts["trips"] += 1
            if failure is not None:
                failures.append(failure)
    return counts, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("draws", nargs="?", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", type=int, default=5)
    options = parser.parse_args()
    counts, failures = fuzz(options.seed, options.draws)
    for (law, way), number in Counter((one.law.partition(" [")[0], one.way) for one in failures).most_common():
        print(f"{number:>6} × {law}: {' → '.join(way)}")
    for failure in failures[: options.shown]:
        print(failure)
    print(f"{counts['trips']} trips, {counts['refused']} refused, {len(failures)} failures")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
