"""Draws the suite of reply formats by seeds: what the first level demands is what Jinja writes of a message.

    PYTHONPATH=tests python tests/spec/draw_replies.py

The templates are our own (`kit.family_templates`, `kit.reply_templates`). A reply is what a template writes of an
assistant's message behind the prompt that it writes of the messages before: so the message is what is to be read.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from kit.family_templates import FAMILIES, OTHERS
from kit.plain_jinja import plain_prompt
from kit.reply_templates import TEMPLATES
from spec.draw_harmony import FORECAST
from spec.vectors import Cases, Json, pieces_of, text_of, write

CLAUSES = {
    "REP-1": "A prompt is what the template writes of messages and tools, with the beginning of a reply.",
    "REP-2": "A text of a message that spells a control stays text.",
    "REP-3": "A reply that the template writes of a message is read as that message.",
    "REP-4": "Reasoning is kept apart from the answer, also where the prompt opened it.",
    "REP-5": "A call has the name that was written and its arguments, each value with its type.",
    "REP-6": "Several calls of one reply stay in their order.",
    "REP-7": "However a reply is cut, the same message is read.",
    "REP-8": "A grammar admits what the template writes, where that fits the request.",
    "REP-9": "A grammar refuses other tools, arguments that do not fit, and an answer where a call is required.",
    "REP-10": "What a grammar may admit with more behind it is a prefix.",
    "REP-11": "No word of a reply that is cut or malformed is lost.",
    "REP-12": "Reasoning that was never closed is not shown as the answer.",
}
_CONTROL = re.compile(r"<\|[^<>|{}\s']+\|>|<｜[^<>{}\s']+?｜>|\[[A-Z_]+\]|</s>|<\|\w+>|<\w+\|>")
TOOLS = [
    {"type": "function", "function": {"name": "forecast", "description": "The weather.", "parameters": FORECAST}},
    {"type": "function", "function": {"name": "note", "description": "Keeps a text.", "parameters": {
        "type": "object", "properties": {"text": {"type": "string"}, "pinned": {"type": "boolean"}},
        "required": ["text"], "additionalProperties": False}}},
]  # fmt: skip
ARGUMENTS: tuple[tuple[str, Json], ...] = (
    ("forecast", {"city": "Bern"}),
    ("forecast", {"city": "東京", "days": 3}),
    ("forecast", {"city": "Zürich", "unit": "c", "hours": [6, 12, 18]}),
    ("forecast", {"city": "a b", "days": 14, "unit": "f", "hours": []}),
    ("note", {"text": "two\nlines", "pinned": True}),
    ("note", {"text": 'say "hi" & {go}', "pinned": False}),
    ("note", {"text": "3 < 4"}),
    ("note", {"text": "true"}),
)
QUESTIONS = ("明日は？", "Write it down, please.", "1 + 1 = ?")
ANSWERS = ("It is.", "はい。", "Done: noted.", "Two\n\nlines", "It's 2.")
THOUGHTS = ("They want to know.", "Let me see\nand think.", "簡単だ。")
MISFITS = (
    ("Arguments of another type", "forecast", {"city": "Bern", "days": "soon"}),
    ("A number beyond its bound", "forecast", {"city": "Bern", "days": 15}),
    ("A word that is none of those allowed", "forecast", {"city": "Bern", "unit": "k"}),
    ("No argument where one is required", "note", {"pinned": True}),
    ("A tool that is not offered", "elsewhere", {"city": "Bern"}),
)


@dataclass(frozen=True)
class Family:
    """A template, and the controls of the vocabulary that it is used with."""

    name: str
    template: str

    @cached_property
    def controls(self) -> list[str]:
        return sorted(set(_CONTROL.findall(self.template)))

    @property
    def thinks(self) -> bool:
        return "reasoning_content" in self.template

    @cached_property
    def opens(self) -> bool:
        """Whether the prompt opens the reasoning of the reply."""
        answer = {"role": "assistant", "content": "!"}
        return not self.text([QUESTION, answer], begin=False).startswith(self.text([QUESTION]))

    @property
    def parts(self) -> list[str]:
        """The shared parts of a request that has a reply."""
        return [self.name, "tools", f"{self.name}: prompt"]

    def text(self, messages: Sequence[Json], *, begin: bool = True) -> str:
        """What Jinja writes; calls' arguments are objects there. Raises `TemplateError`."""
        given = json.loads(json.dumps(messages))
        for call in (call for message in given for call in message.get("tool_calls", ())):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return plain_prompt(self.template, given, TOOLS, add_generation_prompt=begin)

    def reply(self, message: Json) -> list[Any]:
        """The message as a reply to the question, up to its end. Raises `TemplateError` for one it does not write."""
        whole, prompt = self.text([QUESTION, message], begin=False), self.text([QUESTION])
        if not whole.startswith(prompt):
            raise TemplateError("the template writes no such reply to its own prompt")
        reply = whole.removeprefix(prompt).removesuffix("\n")
        if (message.get("content") or "") not in reply:
            raise TemplateError("the template leaves out the text")
        return pieces_of(reply, self.controls)


_MORE = (
    "objects with names of their own", "a list with the id first", "an id before the name", "arguments in tags",
    "strings between quotes of the template's", "regions that are messages", "words as marks", "the way Python calls",
    "one object round all calls", "the arguments before the name",
)  # fmt: skip
"""Templates with markers that no model has: how they write replies can only be derived."""
FAMILY = [
    Family(name, template)
    for name, template in {**FAMILIES, **OTHERS, **{name: TEMPLATES[name] for name in _MORE}}.items()
]
QUESTION: Json = {"role": "user", "content": "Is it going to rain?"}
"""The question before every reply."""


class Draw:
    """Messages by a seed, which the family's template writes."""

    def __init__(self, family: Family, seed: str) -> None:
        self.family = family
        self.random = random.Random(f"{family.name} {seed}")

    def question(self) -> Json:
        return {"role": "user", "content": self.random.choice(QUESTIONS)}

    def message(self, *, text: bool = False, calls: int = 0, thought: bool = False) -> Json:
        """A reply; with reasoning wherever the prompt opens it."""
        message: Json = {"role": "assistant", "content": self.random.choice(ANSWERS) if text else ""}
        if self.family.thinks and (thought or self.family.opens):
            message["reasoning_content"] = self.random.choice(THOUGHTS)
        if calls:
            message["tool_calls"] = [self.call(i, *self.random.choice(ARGUMENTS)) for i in range(calls)]
        return message

    def call(self, index: int, name: str, arguments: Json) -> Json:
        ids = {"kimi k2": f"functions.{name}:{index}", "command": str(index)}
        text = json.dumps(arguments, ensure_ascii=False)
        id = ids.get(self.family.name, f"call{index:05}")
        return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def expected(message: Json) -> Json:
    """The message as an answer has it: no empty members, and arguments as values."""
    calls = [
        {"function": {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls", ())
    ]
    members = {name: message.get(name) or None for name in ("reasoning_content", "content")}
    return {**members, "tool_calls": calls or None}


# -- one family -----------------------------------------------------------------------------------------------------


def draw_prompts(family: Family, cases: Cases) -> None:
    draw = Draw(family, "prompts")
    called = draw.message(calls=1)
    result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "22 °C"}
    asked = [draw.question()]
    history = [*asked, called, result, draw.message(text=True), draw.question()]
    spelled = [{"role": "user", "content": f"What is {family.controls[0]}, and {family.controls[-1]}?"}]
    for title, messages in (
        ("A question", asked),
        ("A call and its result", history),
        ("A control in a text", spelled),
    ):
        text = family.text(messages)
        demands: Json = {"specification": {"text": text}}
        if messages is spelled:
            content = str(spelled[0]["content"])
            before, _, behind = text.partition(content)
            first, last = pieces_of(before, family.controls), pieces_of(behind, family.controls)
            demands["choices"] = {"pieces": joined([*first, content, *last])}
        clauses = {"REP-1", *({"REP-2"} if "choices" in demands else ())}
        cases.add(
            "render", family.name, title, clauses, {"messages": messages}, parts=[family.name, "tools"], **demands
        )


def joined(pieces: Sequence[Any]) -> list[Any]:
    """The pieces with adjacent texts as one."""
    found: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return found


KINDS: tuple[tuple[str, str, tuple[str, ...], Json], ...] = (
    ("parse", "An answer", (), {"text": True}),
    ("parse", "Reasoning and an answer", ("REP-4",), {"text": True, "thought": True}),
    ("parse", "A call", ("REP-5",), {"calls": 1}),
    ("parse", "Another answer", (), {"text": True}),
    ("parse", "Another call", ("REP-5",), {"calls": 1}),
    ("parse", "Text and a call", ("REP-5",), {"text": True, "calls": 1}),
    ("parse", "Two calls", ("REP-5", "REP-6"), {"calls": 2}),
    ("parse", "Reasoning and a call", ("REP-4", "REP-5"), {"calls": 1, "thought": True}),
    ("stream", "Reasoning, text and a call", ("REP-5", "REP-7"), {"text": True, "calls": 1, "thought": True}),
    ("stream", "Two calls", ("REP-6", "REP-7"), {"calls": 2}),
    ("stream", "An answer", ("REP-7",), {"text": True}),
)


def replies(family: Family) -> Iterator[tuple[str, str, tuple[str, ...], Json, list[Any]]]:
    """(op, title, clauses, message, reply) for each kind that the family's template writes."""
    for number, (op, title, clauses, kind) in enumerate(KINDS):
        if kind.get("thought") and not family.thinks and op == "parse":
            continue
        message = Draw(family, f"{op} {number}").message(**kind)
        with suppress(TemplateError):
            yield op, title, clauses, message, family.reply(message)


def draw_replies(family: Family, cases: Cases) -> None:
    for op, title, clauses, message, reply in replies(family):
        cases.add(op, family.name, title, {"REP-3", *clauses}, {"reply": reply}, parts=family.parts,
                  specification={"message": expected(message)})  # fmt: skip


def draw_grammars(family: Family, cases: Cases) -> None:
    """A call and an answer that fit, beginnings of the call, and what fits no request."""
    draw = Draw(family, "grammars")

    def add(title: str, reply: list[Any], answer: str, clause: str, choice: str = "required") -> None:
        cases.add("admits", family.name, title, {clause}, {"tool_choice": choice, "reply": reply}, parts=family.parts,
                  specification={"admits": answer})  # fmt: skip

    called, answered = family.reply(draw.message(calls=1)), family.reply(draw.message(text=True))
    add("A call that fits", called, "yes", "REP-8")
    add("A call that fits where none is required", called, "yes", "REP-8", "auto")
    add("An answer", answered, "yes", "REP-8", "auto")
    add("A call that is begun", cut(called, 1), "prefix", "REP-10")
    add("A call that is nearly whole", cut(called, 3), "prefix", "REP-10")
    if family.name != "regions that are messages":  # whose answer may be the text before a call
        add("An answer where a call is required", answered, "no", "REP-9")
    for title, name, arguments in (*MISFITS[:2], MISFITS[2 + draw.random.randrange(2)], MISFITS[-1]):
        reply = family.reply({**draw.message(), "tool_calls": [draw.call(0, name, arguments)]})
        add(title, reply, "no", "REP-9")


def cut(reply: Sequence[Any], quarters: int) -> list[Any]:
    """The reply up to some quarters of its text; no control is cut."""
    left, found = len(text_of(reply)) * quarters // 4, list[Any]()
    for piece in reply:
        part = piece[:left] if isinstance(piece, str) else piece
        left -= len(text_of([piece]))
        if left < 0 and not isinstance(piece, str):
            break
        found += [part]
        if left <= 0:
            break
    return found


def draw_malformed(family: Family, cases: Cases) -> None:
    """Replies that end too early, after each quarter of them, and reasoning that nobody closed."""
    draw = Draw(family, "malformed")
    kinds: tuple[tuple[str, Json], ...] = (
        ("A cut reply", {"text": True, "calls": 1, "thought": True}), ("A cut call", {"calls": 1})
    )  # fmt: skip
    for title, kind in kinds:
        message = draw.message(**kind)
        with suppress(TemplateError):
            whole = family.reply(message)
            for quarters in (1, 2, 3):
                reply = cut(whole, quarters)
                if keeps := words(text_of(reply), message):
                    cases.add("parse", family.name, f"{title} ({quarters} of 4)", {"REP-11"}, {"reply": reply},
                              parts=family.parts, diagnostics={"keeps": keeps})  # fmt: skip
    message = draw.message(text=True, thought=True)
    if thought := message.get("reasoning_content"):
        text = text_of(family.reply(message))
        reply = pieces_of(text[: text.index(thought) + len(thought)], family.controls)
        cases.add("parse", family.name, "Reasoning without its close", {"REP-12"}, {"reply": reply}, parts=family.parts,
                  diagnostics={"message": {"content": None, "reasoning_content": thought}})  # fmt: skip


def words(text: str, message: Json) -> list[str]:
    """The words of the message's own texts that are whole in the text."""
    calls = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    texts = [message.get("reasoning_content"), message["content"], *(v for call in calls for v in call.values())]
    own = [word for text in texts if isinstance(text, str) for word in re.findall(r"\w{2,}", text)]
    return [word for word in dict.fromkeys(own) if re.search(rf"\b{word}\b.", text, re.DOTALL)]


def draw() -> Cases:
    cases = Cases()
    for family in FAMILY:
        for part in (draw_prompts, draw_replies, draw_grammars, draw_malformed):
            part(family, cases)
    return cases


def main() -> None:
    shared: dict[str, Json] = {
        family.name: {"family": family.name, "template": family.template, "controls": family.controls}
        for family in FAMILY
    }
    prompts = {f"{family.name}: prompt": {"prompt": family.text([QUESTION])} for family in FAMILY}
    shared = {"tools": {"tools": TOOLS}, **shared, **prompts}
    write("replies", "How models write their replies", draw().topics, CLAUSES, shared)


if __name__ == "__main__":
    main()
