"""Replies of template formats read token by token, beside SGLang's parsers of the same families, in one run.

    python bench/reply.py [--rounds 7] [--own]

The peer is read from its wheel, which is fetched into ``.peers`` (39 MB, of which 2 MB stay) with two small packages
that it needs. Nothing of it is installed: what only serves other work (transformers, its server's models) is left out.

Both sides read the same reply of 4,000 tokens (reasoning, text, two calls) as a streaming server does, one token a
step, and collect what a client would be sent; that is compared before anything is timed. Times are processor time, the
least of the rounds, which both sides take in turn. Then one call of 7,000 tokens, for the family whose peer does not
take minutes for it. ``--own``: Antiphon alone, nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeVar
from zipfile import ZipFile

from pydantic import BaseModel

from antiphon.conversation import Channel, MessageStarted, TextDelta, ToolSpec
from antiphon.formats.replies import CompiledDescription, DescriptionParser, Region, ReplyDescription
from antiphon.formats.replies.describe import family_named, whole
from antiphon.tokens import Control, Piece

T = TypeVar("T")

SGLANG = "0.5.23"
FOLDER = Path(__file__).parents[1] / ".peers" / f"sglang-{SGLANG}"
NEEDED = ("orjson==3.11.4", "partial-json-parser==0.2.1.1.post7")
MEMBER = re.compile(r"sglang/srt/(function_call|parser)/.*\.py|sglang/srt/environ\.py")
LEFT_OUT = (
    "transformers",
    "sglang.srt.entrypoints.openai.protocol",
    "sglang.srt.parser.beam",
    "sglang.srt.parser.response_template",
)
"""What the parsers under test import and do not run."""

ANCHOR = "<|im_start|>assistant\n"
THINKING = Region(open="<think>\n", close="\n</think>\n\n")
CONTROLS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>")
FAMILIES = {
    "Hermes": ("hermes_detector", "HermesDetector"),
    "XML parameters": ("qwen3_coder_detector", "Qwen3CoderDetector"),
}
PROSE = (
    "The reader takes what the model says, one token after the other, and tells reasoning from answer (and both from "
    "calls); it's 3 < 4, so a sign may stand for itself. Naïve façades don't help: 你好, привет!\n"
)
CODE = (
    'def area(radius: float) -> float:\n    if radius < 0:\n        raise ValueError(f"no circle: {radius}")\n'
    "    return 3.14159 * radius ** 2  # π, nearly\n\n"
)
TOKEN = re.compile(r" ?[^\W\d_]{1,12}| ?\d{1,3}|\s+(?=\s)|\n+| ?[^\w\s]{1,2}|\s|_")
PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "text": {"type": "string"},
        "mode": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path", "text"],
}
TOOL = ToolSpec("write_file", "Writes a file.", PARAMETERS)


@dataclass
class Collected:
    """What a client was sent, delta by delta."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    calls: list[tuple[str, list[str]]] = field(default_factory=list)

    def view(self) -> tuple[str, str, list[tuple[str, Any]]]:
        calls = [(name, json.loads("".join(arguments))) for name, arguments in self.calls]
        return "".join(self.reasoning).strip(), "".join(self.content).strip(), calls


def tokens(text: str, most: int | None = None) -> list[Piece]:
    """Pieces as a byte-pair vocabulary cuts them, nearly: words with their blank, signs, short numbers."""
    found = TOKEN.findall(text)
    assert "".join(found) == text
    return list(found[:most])


def call(family: str, path: str, repeats: int = 18) -> list[Piece]:
    """Writes a file of so many times the same five lines."""
    arguments = {"path": path, "text": CODE * repeats, "mode": 420, "tags": ["new", "python"]}
    if family == "Hermes":
        body = json.dumps({"name": TOOL.name, "arguments": arguments}, ensure_ascii=False)
    else:
        said = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
        pairs = (f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in said.items())
        body = f"<function={TOOL.name}>\n{''.join(pairs)}</function>"
    return [Control("<tool_call>"), *tokens(f"\n{body}\n"), Control("</tool_call>")]


def reply(family: str) -> list[Piece]:
    """4,000 tokens: reasoning, text and two calls, each a quarter or nearly."""
    calls = [*call(family, "a.py"), "\n", *call(family, "b.py")]
    left = 4000 - len(calls) - 5
    reasoning, text = tokens(PROSE * 60, left // 2), tokens(PROSE * 60, left - left // 2)
    return [Control("<think>"), "\n", *reasoning, "\n", Control("</think>"), "\n\n", *text, *calls]


class Antiphon:
    def __init__(self, family: str) -> None:
        found = ReplyDescription(anchor=ANCHOR, ends=("<|im_end|>",), reasoning=THINKING)
        controls = [Control(spelling) for spelling in CONTROLS]
        self._description = CompiledDescription(whole(found, family_named(family)), controls, [])

    def __call__(self, pieces: Sequence[Piece]) -> Collected:
        parser = DescriptionParser(self._description, prompt=[Control("<|im_start|>"), "assistant\n"], tools=[TOOL])
        collected = Collected()
        texts = collected.content
        for piece in pieces:
            texts = self._collect(parser.feed((piece,)), collected, texts)
        self._collect(parser.close(), collected, texts)
        return collected

    @staticmethod
    def _collect(events: Iterable[object], collected: Collected, texts: list[str]) -> list[str]:
        for event in events:
            if isinstance(event, TextDelta):
                texts.append(event.text)
            elif isinstance(event, MessageStarted):
                header = event.message
                texts = collected.reasoning if header.channel == Channel.ANALYSIS else collected.content
                if header.recipient:
                    texts = []
                    collected.calls.append((header.recipient.removeprefix("functions."), texts))
        return texts


class SGLang:
    """Its detectors of reasoning and of calls, one behind the other, as its server calls them."""

    def __init__(self, family: str) -> None:
        module, name = FAMILIES[family]
        self._detector = getattr(import_module(f"sglang.srt.function_call.{module}"), name)
        self._reasoning = import_module("sglang.srt.parser.reasoning_parser").Qwen3Detector
        self._tools = [Tool(function=Function(name=TOOL.name, parameters=PARAMETERS))]

    def __call__(self, pieces: Sequence[str]) -> Collected:
        reasoning, detector, tools, collected = self._reasoning(), self._detector(), self._tools, Collected()
        for piece in pieces:
            step = reasoning.parse_streaming_increment(piece)
            if step.reasoning_text:
                collected.reasoning.append(step.reasoning_text)
            if step.normal_text:
                self._collect(detector.parse_streaming_increment(step.normal_text, tools), collected)
        return collected

    @staticmethod
    def _collect(step: Any, collected: Collected) -> None:
        if step.normal_text:
            collected.content.append(step.normal_text)
        for item in step.calls:
            if item.name:
                collected.calls.append((item.name, []))
            if item.parameters:
                collected.calls[item.tool_index][1].append(item.parameters)


class Function(BaseModel):
    """The peer's own model of a function in a request, as far as its parsers read it."""

    name: str
    parameters: dict[str, Any]


class Tool(BaseModel):
    type: str = "function"
    function: Function


class LeftOut(ModuleType):
    """A module any of whose names is a class that nothing uses."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Tool if name == "Tool" else type(name, (), {})


def pip(*arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run([sys.executable, "-m", "pip", *arguments, *quiet], check=True)


def fetch() -> None:
    """The peer's parsers, into a folder that is whole once it has its name."""
    FOLDER.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FOLDER.parent) as place:
        wheels, folder = Path(place) / "wheels", Path(place) / "whole"
        read_only = ("--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux_2_34_x86_64")
        pip("download", "--dest", str(wheels), *read_only, f"sglang=={SGLANG}")
        with ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if MEMBER.fullmatch(name)])
        pip("install", "--target", str(folder), "--only-binary", ":all:", *NEEDED)
        folder.rename(FOLDER)


def peer() -> None:
    """Makes the peer importable, without what it does not need."""
    if not FOLDER.is_dir():
        fetch()
    sys.path.append(str(FOLDER))
    for name in LEFT_OUT:
        sys.modules[name] = LeftOut(name)


def microseconds(read: Callable[[Sequence[T]], Collected], pieces: Sequence[T]) -> float:
    """Of processor time a token."""
    start = time.process_time()
    read(pieces)
    return (time.process_time() - start) / len(pieces) * 1e6


def plain(family: str, rounds: int) -> None:
    """Text in which no mark may begin: of words that recur, as a language's do, and of words that never do."""
    own = Antiphon(family)
    recurring = tokens("Plain words of an answer that goes on and on. " * 400)[:4000]
    known = min(microseconds(own, recurring) for _ in range(rounds))
    new = min(microseconds(Antiphon(family), [f" {n:x}" for n in range(4000)]) for _ in range(rounds))
    print(f"{family}: plain text {known:.2f} µs an id, {new:.2f} µs where no id was ever read before (aim: 2)")


def compare(family: str, pieces: Sequence[Piece], rounds: int) -> None:
    own, other = Antiphon(family), SGLang(family)
    texts = [piece.spelling if isinstance(piece, Control) else piece for piece in pieces]
    mine, theirs = own(pieces).view(), other(texts).view()
    if mine != theirs or not mine[2]:
        raise SystemExit(f"{family}: the two read the reply differently\n{mine!r}\n{theirs!r}")
    times = [(microseconds(own, pieces), microseconds(other, texts)) for _ in range(rounds)]
    best, peers = min(each[0] for each in times), min(each[1] for each in times)
    ratios = sorted(theirs / mine for mine, theirs in times)
    spread = f"{ratios[0]:.1f} to {ratios[-1]:.1f}, the middle round {ratios[rounds // 2]:.1f}"
    print(f"{family}: {len(pieces)} ids, {best:.2f} µs an id to SGLang's {peers:.1f}: {peers / best:.1f} x ({spread})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--own", action="store_true", help="Antiphon alone")
    options = parser.parse_args()
    for family in FAMILIES:
        plain(family, options.rounds)
    if not options.own:
        peer()
        for family in FAMILIES:
            compare(family, reply(family), options.rounds)
        print("one long call:")
        compare("XML parameters", call("XML parameters", "a.py", 150), options.rounds)


if __name__ == "__main__":
    main()
