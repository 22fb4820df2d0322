"""How often a model is right under several defaults of sampling: as text, as a typed answer, as a call of a tool.

python bench/sampling_defaults.py MODEL.gguf [--seeds 3] [--ways text,typed] [--settings raw,truncated,greedy]
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import antiphon

SETTINGS: Mapping[str, Mapping[str, float]] = {
    "raw": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
    "truncated": {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05},
    "makers": {"temperature": 0.2, "top_p": 0.9, "top_k": 0, "min_p": 0.0},
    "greedy": {"temperature": 0.0},
    "shipped": {},
}
"""Defaults by name: nothing cut off, llama.cpp's, those of SmolLM2's model card, the likeliest, and Antiphon's own."""

TEXTS: Mapping[str, tuple[str, ...]] = {
    "What is the capital of France?": ("paris",),
    "What is the capital of Japan?": ("tokyo",),
    "What is the capital of Egypt?": ("cairo",),
    "What is the capital of Canada?": ("ottawa",),
    "What is the capital of Norway?": ("oslo",),
    "What is the capital of Kenya?": ("nairobi",),
    "What is the capital of Peru?": ("lima",),
    "What is the capital of Poland?": ("warsaw",),
    "What language is mainly spoken in Brazil?": ("portuguese",),
    "Which planet is the closest to the sun?": ("mercury",),
    "Which planet is called the red planet?": ("mars",),
    "What gas do plants take from the air?": ("carbon dioxide", "co2"),
    "Which ocean lies between Europe and America?": ("atlantic",),
    "Who wrote Romeo and Juliet?": ("shakespeare",),
    "Who painted the Mona Lisa?": ("leonardo", "vinci"),
    "What is the chemical symbol of gold?": ("au",),
    "What is the opposite of hot?": ("cold",),
    "What is the opposite of early?": ("late",),
    "What is the plural of mouse, the animal?": ("mice",),
    "What is the past tense of 'go'?": ("went",),
    "What is the German word for 'house'?": ("haus",),
    "What is the French word for 'cat'?": ("chat", "chatte"),
    "What is the Spanish word for 'water'?": ("agua",),
    "What animal says 'moo'?": ("cow",),
    "What colour do you get from blue and yellow paint?": ("green",),
}
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "What is 12 * 12?": ("144",),
    "What is 17 + 25?": ("42",),
    "What is 100 - 37?": ("63",),
    "What is 9 * 8?": ("72",),
    "What is 81 / 9?": ("9", "nine"),
    "What is 15 * 6?": ("90",),
    "What is 250 + 375?": ("625",),
    "What is the square root of 64?": ("8", "eight"),
    "What is 2 to the power of 10?": ("1024", "1,024"),
    "How many days has a week?": ("7", "seven"),
    "How many months has a year?": ("12", "twelve"),
    "How many legs has a spider?": ("8", "eight"),
    "How many minutes has an hour?": ("60", "sixty"),
    "How many sides has a hexagon?": ("6", "six"),
    "How many letters has the English alphabet?": ("26", "twenty-six"),
    "In which year did the Second World War end?": ("1945",),
    "In which year did people first walk on the moon?": ("1969",),
    "At how many degrees Celsius does water boil?": ("100",),
    "How many grams has a kilogram?": ("1000", "1,000", "thousand"),
    "How many players has a football team on the field?": ("11", "eleven"),
}
"""45 questions with one right answer, 25 of a word and 20 of a number."""

LISTS: Mapping[str, frozenset[str]] = {
    "Name the three primary colours of paint.": frozenset({"red", "yellow", "blue"}),
    "Name the four seasons.": frozenset({"spring", "summer", "autumn", "winter"}),
    "Name the first three months of the year.": frozenset({"january", "february", "march"}),
    "Name the two days of the weekend.": frozenset({"saturday", "sunday"}),
    "Name the three states of matter.": frozenset({"solid", "liquid", "gas"}),
}

CALLS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "What is the weather in Rome?": ("weather", {"city": "Rome"}),
    "How warm is it in Paris now?": ("weather", {"city": "Paris"}),
    "Do I need an umbrella in London?": ("weather", {"city": "London"}),
    "Add 17 and 25.": ("add", {"a": 17, "b": 25}),
    "What is 130 plus 7?": ("add", {"a": 130, "b": 7}),
    "How much is 45 + 55?": ("add", {"a": 45, "b": 55}),
    "Read the file notes.txt.": ("read_file", {"path": "notes.txt"}),
    "What is in /etc/hosts?": ("read_file", {"path": "/etc/hosts"}),
    "Show me the contents of README.md.": ("read_file", {"path": "README.md"}),
    "Translate 'good morning' to French.": ("translate", {"text": "good morning", "language": "French"}),
}


def tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*parameters], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    tool("weather", "The weather of a city now.", city="string"),
    tool("add", "The sum of two whole numbers.", a="integer", b="integer"),
    tool("read_file", "The text of a file.", path="string"),
    tool("translate", "A text in another language.", text="string", language="string"),
]


@dataclass(frozen=True)
class Task:
    """A question, how it is put, and whether its reply is right. ``options`` are fields of a chat completions request,
    ``response`` is the type of the answer."""

    question: str
    options: Mapping[str, Any]
    right: Callable[[Any], bool]
    response: type | None = None

    def body(self, seed: int) -> dict[str, Any]:
        """The request."""
        return {"messages": [{"role": "user", "content": self.question}], "seed": seed, **self.options}


def named(answer: str, words: tuple[str, ...]) -> bool:
    """Whether one of the words stands in the answer, whole."""
    return any(re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|[.,]\d)", answer.lower()) for word in words)


def text_tasks() -> Iterator[Task]:
    for question, words in {**TEXTS, **NUMBERS}.items():
        yield Task(question, {"max_tokens": 40}, lambda reply, words=words: named(reply.text, words))


def typed_tasks() -> Iterator[Task]:
    """An answer of a word is one of at most 40 characters: a paragraph is no value of a field."""
    for question, words in TEXTS.items():
        yield Task(question, {"max_tokens": 40}, lambda reply, words=words: is_word(reply.parsed, words), str)
    for question, words in NUMBERS.items():
        numbers = {int(word.replace(",", "")) for word in words if word[0].isdigit()}
        yield Task(question, {"max_tokens": 20}, lambda reply, right=numbers: reply.parsed in right, int)


def list_tasks() -> Iterator[Task]:
    for question, listed in LISTS.items():
        yield Task(question, {"max_tokens": 80}, lambda reply, right=listed: lowered(reply.parsed) == right, list[str])


def is_word(value: object, words: tuple[str, ...]) -> bool:
    return isinstance(value, str) and len(value) <= 40 and named(value, words)


def lowered(values: list[str] | None) -> set[str]:
    return {value.lower() for value in values or ()}


def call_tasks() -> Iterator[Task]:
    for question, (name, arguments) in CALLS.items():
        options = {"max_tokens": 60, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
        yield Task(question, options, lambda reply, name=name, given=arguments: called(reply, name, given))


def called(reply: Any, name: str, arguments: Mapping[str, object]) -> bool:
    """Whether the first call is the right one."""
    if not reply.calls:
        return False
    call = reply.calls[0]
    return bool((call.recipient or "").endswith(name) and _lower(json.loads(call.body)) == _lower(arguments))


def _lower(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value.lower() if isinstance(value, str) else value for key, value in values.items()}


WAYS: Mapping[str, Callable[[], Iterator[Task]]] = {
    "text": text_tasks,
    "typed": typed_tasks,
    "lists": list_tasks,
    "calls": call_tasks,
}


def measure(path: str, setting: str, ways: list[str], seeds: int, *, wrong: bool) -> Iterator[str]:
    """A row for each way: right answers of each seed, and the seconds that all took."""
    sampling = dict(SETTINGS[setting])
    with antiphon.open_model(path, context=2048, **({"sampling": sampling} if sampling else {})) as model:
        for way in ways:
            began, counts, tasks = time.monotonic(), [], [*WAYS[way]()]
            for seed in range(1 if setting == "greedy" else seeds):
                count = 0
                for task in tasks:
                    try:
                        reply: Any = model.chat(task.body(seed + 1), response=task.response)
                        fine = task.right(reply)
                    except (antiphon.AntiphonError, ValueError) as error:
                        reply, fine = error, False
                    count += fine
                    if wrong and not fine:
                        said = str(getattr(reply, "text", reply) or getattr(reply, "calls", ""))
                        print(f"    {setting} {way} {seed + 1}: {task.question} -> {said[:100]!r}", flush=True)
                counts.append(count)
            mean = sum(counts) / len(counts) / len(tasks)
            took = time.monotonic() - began
            yield f"{setting:<10} {way:<6} {counts!s:<16} of {len(tasks):>2}  {mean:>5.0%}  {took:>5.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ways", default="text,typed,lists,calls")
    parser.add_argument("--settings", default="raw,truncated,greedy")
    parser.add_argument("--wrong", action="store_true", help="print each wrong answer")
    given = parser.parse_args()
    for setting in given.settings.split(","):
        for row in measure(given.model, setting, given.ways.split(","), given.seeds, wrong=given.wrong):
            print(row, flush=True)


if __name__ == "__main__":
    main()
