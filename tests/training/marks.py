"""What a template marks as the assistant's, what of that no model samples, and why: by characters, without our masks.

A template for training marks with ``{% generation %}`` what it writes for an assistant. A model samples a little less:
its prompt opens the reply, and it stops at its stop. So what is expected of us are the marks, less what is argued here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

from bridge.templates import Source, names, text_of
from kit.plain_jinja import MARKS, TODAY, plain_prompt

Messages = Sequence[Mapping[str, Any]]

OPENED = "opened by the prompt"
BLANK = "blank behind the stop"
SECOND_END = "second end behind the stop"
OTHER_END = "another end in the stop's place"
STOP = "stop without a mark"
ARGUED = (OPENED, BLANK, SECOND_END, OTHER_END, STOP)
"""Why what is marked is not sampled; the last: why what is sampled is not marked."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }
]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, thought: str = "") -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"reasoning_content": thought} if thought else {})}


def call(thought: str = "") -> dict[str, Any]:
    function = {"name": "look", "arguments": {"q": "a b", "n": 3}}
    return {**assistant("", thought), "tool_calls": [{"id": "call_a1b2", "type": "function", "function": function}]}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_a1b2", "name": "look", "content": text}


CHATS: dict[str, list[dict[str, Any]]] = {
    "turns": [user("Hi"), assistant("Hello there."), user("And?"), assistant("Nothing.")],
    "system": [{"role": "system", "content": "Be brief."}, user("Hi"), assistant("Hello."), user("So"), assistant("N")],
    "blanks": [user("Hi"), assistant("\n\n  Hello.\n"), user("And?"), assistant(" Nothing. ")],
    "thought": [user("Hi"), assistant("Hello there.", "They greet.")],
    "thoughts": [user("Hi"), assistant("Hello there.", "They greet."), user("And?"), assistant("Nothing.", "Hm.")],
    "call": [user("Look"), call(), result("42 hits"), assistant("It is 42.")],
    "thought call": [user("Look"), call("I look."), result("42 hits"), assistant("It is 42.", "So.")],
    "calls": [
        user("Look"), call(), result("42 hits"), assistant("It is 42."),
        user("More"), call("Hmm."), result("7 hits"), assistant("It is 7."),
    ],
}  # fmt: skip
"""Texts of users and results differ from each other, so that each has one place."""


def tools_of(messages: Messages) -> list[dict[str, Any]]:
    return TOOLS if any(message["role"] == "tool" for message in messages) else []


class Template(NamedTuple):
    """A template's text, its special tokens, its model's stops, whether it takes texts in parts, and the day."""

    text: str
    special: Mapping[str, Any]
    stops: Collection[str]
    parts: bool = False
    today: date = TODAY

    def write(self, messages: Messages, *, opens: bool = False, marked: bool = False) -> str:
        messages, tools, more = self.given(messages), tools_of(messages) or None, self.special
        return plain_prompt(self.text, messages, tools, self.today, marked=marked, add_generation_prompt=opens, **more)

    def given(self, messages: Messages) -> Messages:
        if not self.parts:
            return messages
        return [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in messages]

    def marks(self, messages: Messages) -> tuple[str, list[bool]]:
        """The conversation as the template writes it, and which characters it marks."""
        marked, inside = list[tuple[str, bool]](), False
        for char in self.write(messages, marked=True):
            if char in MARKS:
                inside = char == MARKS[0]
            else:
                marked.append((char, inside))
        return "".join(char for char, _ in marked), [own for _, own in marked]

    def expected(self, messages: Messages, text: str, marked: Sequence[bool]) -> tuple[list[bool], dict[int, str]]:
        """Which characters a model samples, by the marks, and of each that is marked otherwise why that is so."""
        sampled, why = list(marked), dict[int, str]()
        for start, end in self._openings(messages, text):
            why |= {i: OPENED for i in range(start, end) if sampled[i]}
            sampled[start:end] = [False] * (end - start)
        for start, end in _runs(sampled):
            stopped, reason = self._end(text, start, end)
            sampled[start:stopped] = [True] * (stopped - start)
            sampled[stopped:end] = [False] * (end - stopped)
            why |= dict.fromkeys((*range(stopped, end), *range(end, stopped)), reason)
        return sampled, why

    def _end(self, text: str, start: int, end: int) -> tuple[int, str]:
        """Where what is sampled ends of what is marked, and why."""
        ends = [at + len(stop) for stop in self.stops if (at := text.find(stop, start, end)) >= 0]
        if ends:
            behind = text[min(ends) : end].strip()
            assert not behind or behind in self.stops, f"more is marked behind the stop: {behind!r}"
            return min(ends), SECOND_END if behind else BLANK
        if stop := next((stop for stop in self.stops if text.startswith(stop, end)), ""):
            return end + len(stop), STOP
        assert text.endswith("<|end|>", start, end), f"no stop ends {text[start:end]!r}"
        return end - len("<|end|>"), OTHER_END

    def _openings(self, messages: Messages, text: str) -> Iterator[tuple[int, int]]:
        """Where the text has what the prompt for a reply wrote behind the message before it.

        A prompt may go on to a thought that the history has otherwise or not at all: then its header is looked for. One
        template writes none before a second call.
        """
        at = 0
        for i in (i for i, message in enumerate(messages) if message["role"] == "assistant"):
            prompt, last = self.write(messages[:i], opens=True), messages[i - 1]["content"]
            last = next(form for form in (last, json.dumps(last)[1:-1]) if form in prompt)
            opened = prompt[prompt.rindex(last) + len(last) :]
            forms = (opened, opened.rstrip(), opened.partition("<think>")[0], "")
            form = next(form for form in forms if text.find(last + form, at) >= 0)
            at = text.index(last + form, at) + len(last)
            yield at, at + len(form)


def spans(text: str, sampled: Sequence[bool]) -> list[tuple[int, str]]:
    """The place and the text of each run that is sampled."""
    return [(start, text[start:end]) for start, end in _runs(sampled)]


def _runs(values: Sequence[bool]) -> list[tuple[int, int]]:
    """Start and end of each run that is true."""
    places = (list(run) for own, run in groupby(range(len(values)), values.__getitem__) if own)
    return [(run[0], run[-1] + 1) for run in places]


MARKED = [name for name in names() if re.search(r"\{%[-+]?\s*generation\b", text_of(name))]
NO_TOOLS = (
    "tests: smol", "trl: cohere", "trl: gemma", "trl: idefics3", "trl: llama3", "trl: llava", "trl: phi3",
    "trl: qwen2_5_vl", "trl: smolvlm",
)  # fmt: skip
"""Those that write no tools or no results; where we describe tools in words the texts differ."""
NO_SYSTEM = ("trl: gemma_training",)
IN_PARTS = ("trl: idefics3", "trl: llava", "trl: smolvlm")
"""Those that take the texts of messages only as parts."""


def chats(name: str) -> Iterator[tuple[str, Messages]]:
    for chat, messages in CHATS.items():
        left_out = (tools_of(messages) and name.startswith(NO_TOOLS)) or (chat == "system" and name in NO_SYSTEM)
        if not left_out:
            yield chat, messages


def template_of(known: Source) -> Template:
    special = {"bos_token": "", "eos_token": known.eos_token}
    stops = [str(stop) for stop in known.format.stops]
    return Template(text_of(known.name), special, stops, known.name.startswith(IN_PARTS))
