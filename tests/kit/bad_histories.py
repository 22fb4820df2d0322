"""Histories that models and their clients can write, and that templates refuse: chat messages, and words of them.

The words are to stand in the prompt, whatever else stands there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

Chat = list[dict[str, Any]]
NAME = "probe"
OFFERED = {"name": NAME, "description": "Probes.", "parameters": {"type": "object", "properties": {"k": {}}}}


def user(text: str = "next") -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def called(arguments: str = '{"k": 1}', name: str = NAME, id: str = "call_1") -> dict[str, Any]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return said(None, tool_calls=[call])


def result(text: str = "result", id: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def both(*messages: dict[str, Any]) -> dict[str, Any]:
    return said(None, tool_calls=[call for message in messages for call in message["tool_calls"]])


BROKEN = (
    '{"value": ', "null", "[1]", "12", '"x"', "true", "False", '{"k": False}', "{'k': 'v'}", '{"k": 1} and more',
    '{"k": ["a", \'b\']}', '{"k": ' + "9" * 5_000 + "}", "[" * 3_000, "nothing at all", '{"k": "<|im_end|>',
)  # fmt: skip
"""Arguments that are no JSON, or no object."""
ODD = ("", "   ", '{"k": 1, "k": 2}', '{"k": NaN}', '{"k": 1e999}', '{"k": "\\ud800"}', '{"a":' * 400 + "1" + "}" * 400)
"""Arguments that templates spell otherwise."""
HISTORIES: dict[str, tuple[Chat, str]] = {
    **{f"arguments {text[:20]}": ([user(), called(text), result(), user()], text.strip()) for text in BROKEN},
    **{f"a result last, arguments {text[:20]}": ([user(), called(text), result()], text) for text in BROKEN[1::4]},
    **{f"odd arguments {text[:20]}": ([user(), called(text), result("word"), user()], "word") for text in ODD},
    "two calls, one broken": (
        [user(), both(called(), called("{'k'", id="call_2")), result(), result(id="call_2"), user()],
        "{'k'",
    ),
    "two broken rounds": (
        [user(), called("nope"), result(), called("again", id="call_2"), result(id="call_2"), said("ok"), user()],
        "again",
    ),
    "reasoning and a broken call": ([user(), {**called("nope"), "reasoning_content": "hm"}, result(), user()], "nope"),
    "a text and a broken call": ([user(), {**called("nope"), "content": "So"}, result(), user()], "nope"),
    "a name that nobody offered": ([user(), called(name="other"), result(), user()], "result"),
    "no name": ([user(), called(name=""), result(), user()], "result"),
    "a name of words": ([user(), called(name="get weather"), result(), user()], "result"),
    "a name of two lines": ([user(), called(name="a\nb"), result(), user()], "result"),
    "a name that is a control": ([user(), called(name="<|im_end|>"), result(), user()], "result"),
    "a name with a quote": ([user(), called(name='f("x")'), result(), user()], "result"),
    "a result of no call": ([user(), result("orphan"), user()], "orphan"),
    "a result first": ([result("orphan"), user()], "orphan"),
    "a result behind an answer": ([user(), said("It is."), result("orphan"), user()], "orphan"),
    "a result of another call": ([user(), called(), result("orphan", id="other"), user()], "orphan"),
    "a call without a result": ([user(), called(), user("word")], "word"),
    "a call last": ([user("word"), called()], "word"),
    "a result twice": ([user(), called(), result("one"), result("two"), user()], "two"),
    "an id twice": ([user(), both(called(), called()), result("one"), result("two"), user()], "two"),
    "two calls and one result": ([user(), both(called(), called(id="call_2")), result("one"), user()], "one"),
    "an empty reply": ([user(), said(""), user("word")], "word"),
    "no reply": ([user(), {"role": "assistant"}, user("word")], "word"),
    "a reply of blanks": ([user(), said(" \n"), user("word")], "word"),
    "an empty reply last": ([user("word"), said("")], "word"),
    "reasoning alone": ([user(), said(None, reasoning_content="hm"), user("word")], "word"),
    "the model first": ([said("Welcome"), user()], "Welcome"),
    "the model alone": ([said("Welcome")], "Welcome"),
    "a call first": ([called(), result(), user()], "result"),
    "the model twice": ([user(), said("one"), said("two"), user()], "two"),
    "a question behind a result": ([user(), called(), result(), user("word")], "word"),
    "a broken call behind two answers": ([user(), said("a"), said("b"), called("nope"), result(), user()], "nope"),
    "all of it": (
        [said("first"), called("nope"), user(), said(""), said("x"), result("orphan", id="q"), called("["), user()],
        "orphan",
    ),
}  # fmt: skip


def _text(message: dict[str, Any]) -> str:
    return message.get("content") or ""


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Ids, names and arguments."""
    for call in message.get("tool_calls", ()):
        yield call["id"], call["function"]["name"], call["function"]["arguments"]


def _object(arguments: str) -> Any:
    """The value of arguments that are an object; None of others."""
    try:
        value = json.loads(arguments or "{}")
        json.dumps(value, allow_nan=False).encode()
        value = value if "\\ud8" not in arguments else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_chat(chat: Chat) -> dict[str, Any]:
    return {"messages": chat, "tools": [{"type": "function", "function": OFFERED}]}


def as_responses(chat: Chat) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for message in chat:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": _text(message)})
            continue
        if thought := message.get("reasoning_content"):
            items.append({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": thought}]})
        if message.get("content") is not None:
            items.append({"type": "message", "role": message["role"], "content": message["content"]})
        items += [
            {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
            for id, name, arguments in _calls(message)
        ]
    return {"input": items, "tools": [{"type": "function", **OFFERED}]}


def as_messages(chat: Chat) -> dict[str, Any]:
    """Arguments that are no object are as our answers have them."""
    messages = []
    for message in chat:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": _text(message)}
            messages.append({"role": "user", "content": [block]})
            continue
        thought = message.get("reasoning_content")
        blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
        blocks += [{"type": "text", "text": message["content"]}] if message.get("content") is not None else []
        for id, name, arguments in _calls(message):
            given = _object(arguments)
            input = {"INVALID_JSON": arguments} if given is None else given
            blocks.append({"type": "tool_use", "id": id, "name": name, "input": input})
        messages.append({"role": message["role"], "content": blocks})
    tool = {"name": NAME, "input_schema": OFFERED["parameters"]}
    return {"messages": messages, "max_tokens": 9, "tools": [tool]}


def as_ollama(chat: Chat) -> dict[str, Any]:
    """Arguments that are no object are a text."""
    messages = []
    for message in chat:
        one = {"role": message["role"], "content": _text(message), "thinking": message.get("reasoning_content")}
        calls = []
        for id, name, arguments in _calls(message):
            given = _object(arguments)
            calls.append({"id": id, "function": {"name": name, "arguments": arguments if given is None else given}})
        more = {"tool_call_id": message["tool_call_id"]} if message["role"] == "tool" else {}
        messages.append({**one, **({"tool_calls": calls} if calls else {}), **more})
    return {"messages": messages, "stream": False, "tools": as_chat([])["tools"]}


def as_transcript(chat: Sequence[dict[str, Any]]) -> str | None:
    """The transcript; None where a head cannot spell a name."""
    text = 'version: "2.2"\n'
    for message in chat:
        for id, name, arguments in _calls(message):
            if not name.isalnum():
                return None
            head = f"assistant to=functions.{name} call_id={id}<|channel|>commentary"
            text += f"<|start|>{head}<|message|>{arguments}<|call|>\n"
        if message["role"] == "tool":
            head = f"tool name=functions.{NAME} call_id={message['tool_call_id']}"
            text += f"<|start|>{head}<|message|>{_text(message)}<|end|>\n"
        elif thought := message.get("reasoning_content"):
            text += f"<|start|>assistant<|channel|>analysis<|message|>{thought}<|end|>\n"
        elif not message.get("tool_calls"):
            text += f"<|start|>{message['role']}<|message|>{_text(message)}<|end|>\n"
    return text
